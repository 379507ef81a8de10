"""What the fuzzer of the OpenAPI document is told besides: how SDP goes into a body, as text."""

import schemathesis

schemathesis.serializer.alias("application/sdp", "text/plain")
