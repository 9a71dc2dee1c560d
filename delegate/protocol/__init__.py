"""The wire contract between delegate and manager: pure values, their encoding, and nothing that sends them."""
