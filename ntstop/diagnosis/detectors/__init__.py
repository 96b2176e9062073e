"""Small causal functions over one curve, one idea a file. They see each point once, in order, and never look ahead."""
