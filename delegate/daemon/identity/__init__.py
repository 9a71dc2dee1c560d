"""Who this delegate is: the identity in the state directory."""
