// Models from files to their first results.
#pragma once

namespace troupe::bench {

// A child reads a line with the folder of a model and its input, runs it, and says how many KiB more memory it had at
// most than before.
void load_model_as_child();

}  // namespace troupe::bench
