"""`abp-bridge ask`: what is asked, whom, and one question or a stream of them."""
