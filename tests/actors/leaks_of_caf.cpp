// What CAF 0.17.6 itself leaks, now and then: a port that is published while its middleman stops.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:caf::io::network::default_multiplexer::new_doorman";
}
extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }
