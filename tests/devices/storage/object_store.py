"""An object store for a test: moto's server with the bucket "data", whose requests must be signed by the user it names.

Prints "ENDPOINT ACCESS_KEY_ID SECRET_ACCESS_KEY", and serves until it is killed. With the argument "check" it only
tells by its exit code whether moto and boto3 are installed.
"""
import logging
import os
import signal
import sys

FOLDERS = ["train", "odd names +&<ü"]
OBJECTS_OF_A_FOLDER = 12
# Requests of the set-up below; moto checks the signatures of those that follow.
SETUP = 1 + len(FOLDERS) * OBJECTS_OF_A_FOLDER + 1 + 3
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = str(SETUP)

import boto3  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

if sys.argv[1:] == ["check"]:
    sys.exit(0)

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://{host}:{port}"


def client(service):
    return boto3.client(service, endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="setup",
                        aws_secret_access_key="setup")


s3 = client("s3")
s3.create_bucket(Bucket="data")
for folder in FOLDERS:
    for i in range(OBJECTS_OF_A_FOLDER):
        s3.put_object(Bucket="data", Key=f"{folder}/{i:02}.bin", Body=bytes([i]) * (1000 * i))
s3.put_object(Bucket="data", Key="top.bin", Body=b"top")
iam = client("iam")
iam.create_user(UserName="reader")
key = iam.create_access_key(UserName="reader")["AccessKey"]
iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument="""{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": ["s3:Get*", "s3:List*", "s3:Head*"], "Resource": "*"}]}""")
print(endpoint, key["AccessKeyId"], key["SecretAccessKey"], flush=True)
signal.pause()
