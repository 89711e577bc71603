"""kcc: contracts for the gap between training and serving kernels."""
