"""What has no bucket loads no AWS library."""

import subprocess
import sys


def test_only_a_bucket_in_use_loads_the_aws_libraries() -> None:
    """30 MiB and a tenth of a second that a delegate without a bucket does not pay."""
    program = (
        "import sys\n"
        "from delegate.daemon.deadletters.courier import Courier\n"
        "from delegate.daemon.deadletters.bucket import Bucket, BucketAddress\n"
        "from delegate.cli import deadletters\n"
        "from delegate.daemon.deadletters import inspection\n"
        "Bucket(BucketAddress('dlq'))\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'aioboto3', 'aiobotocore', 'botocore', 'boto3'}))\n"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True)

    assert ended.stdout == "[]\n"
