namespace troupe {}
