#include "troupe/actors/cluster/membership_options.hpp"

#include <iterator>

namespace troupe {

std::vector<CommandOption> introspection_options(Membership& membership) {
  return {whole_option("--introspect-port", "PORT", membership.introspect_port, 0, 65535,
                       "Port for a browser, troupe-top and Prometheus to inspect this task; its address is "
                       "printed. 0: any free port"),
          text_option("--flight-record", "DIR", membership.flight_directory,
                      "Directory for the last messages of all actors, written when the task fails (by Troupe's own "
                      "programs also on SIGUSR1) (default: the directory for temporary files)")};
}

std::vector<CommandOption> security_options(NetworkOptions& network) {
  return {text_option("--tls-cert", "FILE", network.tls.certificate, "Encrypt: certificate of this program (PEM)"),
          text_option("--tls-key", "FILE", network.tls.key, "Its key (PEM, without passphrase)"),
          text_option("--tls-ca", "FILE", network.tls.ca, "The CA that signed the certificates of all tasks (PEM)"),
          flag("--insecure", network.insecure, "Allow unencrypted connections to other machines")};
}

CommandOption op_library_option(std::vector<std::string>& paths) {
  return {"--op-library", "FILE", "", "Library of ops to load; may be given several times",
          [&paths](const std::string& file) { paths.push_back(file); }};
}

std::vector<CommandOption> membership_options(Membership& membership) {
  NetworkOptions& network = membership.network;
  std::vector<CommandOption> all{
      text_option("--job", "JOB", membership.job, "Job of this task in its cluster"),
      whole_option("--task", "N", membership.index, 0, 1'000'000, "Index of this task in its job"),
      text_option("--cluster", "FILE", membership.file, "Cluster file"),
      seconds_option("--join-timeout", membership.join_timeout,
                     "Seconds to wait for the tasks of the cluster at the start"),
      seconds_option("--peer-timeout", network.peer_timeout, "Seconds of silence after which a task counts as lost"),
      flag("--no-shared-memory", network.shared_memory, "Use TCP to tasks on this host instead of shared memory",
           false),
      bytes_option("--max-tensor", network.max_tensor, "2GiB", "Largest tensor to send or accept"),
      bytes_option("--in-flight", network.in_flight, "64MiB", "Bytes that each task may have in flight to another"),
      whole_option("--max-connections", "N", network.max_connections, 1, 65536, "Maximum connected tasks"),
      whole_option("--max-strangers", "N", network.max_strangers, 1, 65536, "Maximum unauthenticated connections"),
      seconds_option("--hello-timeout", network.hello_timeout,
                     "Seconds that a new connection has to authenticate itself"),
      op_library_option(membership.op_libraries),
      {"--device-library", "FILE", "",
       "Plug-in with devices to use besides CPUs and NVIDIA's GPUs; may be given several times (parameter servers use "
       "none)",
       [&membership](const std::string& file) { membership.device_libraries.push_back(file); }}};
  for (auto more : {security_options(network), introspection_options(membership)})
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return all;
}

std::vector<CommandOption> device_options(TaskOptions& options) {
  GpuOptions& gpus = options.gpus;
  return {whole_option("--threads", "N", options.threads, 1, 1024,
                       "Threads per CPU device (default: a fair share of the cores)"),
          bytes_option("--memory-limit", options.memory_limit, "",
                       "Memory limit for tensors per device, for example 2GiB (default: no limit)"),
          whole_option("--gpus", "N", gpus.count, 0, 1024,
                       "GPUs of this machine to use; ops without a GPU kernel run on the CPU (default: all; none for "
                       "parameter servers)"),
          flag("--tf32", gpus.tf32, "GPUs: multiply f32 in TF32 (10 bits of mantissa), which is faster"),
          flag("--nondeterministic", gpus.deterministic,
               "GPUs: allow sums in any order where that is faster; results differ from run to run", false),
          flag("--no-gpu-graphs", gpus.recordings,
               "GPUs: launch every kernel of a repeated step separately; slower, for debugging", false),
          flag("--no-nccl", gpus.nccl,
               "GPUs: all-reduce through the host even where NCCL is available; the bits are the same", false)};
}

}  // namespace troupe
