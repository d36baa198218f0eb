// The C API: sessions on graphs.
#include "apps/c/handles.hpp"

struct troupe_session : troupe::c::Handle<troupe::c::tag_of("se")> {
  std::shared_ptr<troupe::Graph> graph;
  std::shared_ptr<troupe::Task> task;
  std::shared_ptr<troupe::Session> session;  // ends before its task
};
struct troupe_callable : troupe::c::Handle<troupe::c::tag_of("ca")> {
  std::shared_ptr<troupe::Graph> graph;
  std::shared_ptr<troupe::Task> task;
  std::shared_ptr<troupe::Session> session;
  troupe::Callable callable;
  std::size_t results = 0;
};

namespace troupe::c {
namespace {

SessionOptions session_options(const troupe_session_options& given) {
  SessionOptions out{.seed = given.seed,
                     .check_numerics = given.check_numerics,
                     .timeout = seconds(given.timeout_seconds, "options.timeout_seconds"),
                     .container = text_or_empty(given.container)};
  if (given.precision != TROUPE_INVALID) out.precision = dtype_of_c(given.precision);
  if (given.inference) out.inference = InferencePasses{};
  return out;
}

struct Call {
  Outputs feeds, fetches, targets;
};
Call call_of(const troupe_output* feeds, std::size_t num_feeds, const troupe_output* fetches, std::size_t num_fetches,
             const troupe_output* targets, std::size_t num_targets) {
  return {outputs_of(feeds, num_feeds, "feeds"), outputs_of(fetches, num_fetches, "fetches"),
          nodes_of(targets, num_targets, "targets")};
}

}  // namespace
}  // namespace troupe::c

using namespace troupe::c;  // NOLINT(google-build-using-namespace)

troupe_session* troupe_session_new(troupe_graph* graph, troupe_task* task, const troupe_session_options* options,
                                   troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_session*>(nullptr), [&] {
    auto out = std::make_unique<troupe_session>();
    out->graph = check(graph, "graph").graph;
    const auto made = session_options(options_of(options));
    if (task) {
      out->task = check(task, "task").task;
      out->session = std::make_shared<troupe::Session>(*out->task, *out->graph, made);
    } else {
      out->session = std::make_shared<troupe::Session>(*out->graph, made);
    }
    return out.release();
  });
}

void troupe_session_delete(troupe_session* session) { destroy(session); }

troupe_code troupe_session_close(troupe_session* session, troupe_status* status) {
  return guarded(__func__, status, [&] { check(session, "session").session->close(); });
}

troupe_code troupe_session_extend(troupe_session* session, troupe_status* status) {
  return guarded(__func__, status, [&] {
    troupe_session& of = check(session, "session");
    of.session->extend(*of.graph);
  });
}

troupe_code troupe_session_run(troupe_session* session, const troupe_run_options* options, const troupe_output* feeds,
                               troupe_tensor* const* values, size_t num_feeds, const troupe_output* fetches,
                               troupe_tensor** results, size_t num_fetches, const troupe_output* targets,
                               size_t num_targets, troupe_status* status) {
  return guarded(__func__, status, [&] {
    const auto to = cleared(results, num_fetches, "results");
    troupe_session& of = check(session, "session");
    const Call call = call_of(feeds, num_feeds, fetches, num_fetches, targets, num_targets);
    std::vector<troupe::Tensor> given = tensors_of(values, num_feeds, "values");
    troupe::Feeds fed;
    for (std::size_t i = 0; i < num_feeds; ++i) fed.emplace_back(call.feeds[i], std::move(given[i]));
    give_tensors(of.session->run(fed, call.fetches, call.targets, run_options(options)), to.data());
  });
}

char* troupe_session_explain(troupe_session* session, const troupe_output* feeds, size_t num_feeds,
                             const troupe_output* fetches, size_t num_fetches, const troupe_output* targets,
                             size_t num_targets, troupe_status* status) {
  return guarded(__func__, status, static_cast<char*>(nullptr), [&] {
    troupe_session& of = check(session, "session");
    const Call call = call_of(feeds, num_feeds, fetches, num_fetches, targets, num_targets);
    return new_text(of.session->explain(call.feeds, call.fetches, call.targets));
  });
}

troupe_callable* troupe_callable_new(troupe_session* session, const troupe_output* feeds, size_t num_feeds,
                                     const troupe_output* fetches, size_t num_fetches, const troupe_output* targets,
                                     size_t num_targets, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_callable*>(nullptr), [&] {
    troupe_session& of = check(session, "session");
    const Call call = call_of(feeds, num_feeds, fetches, num_fetches, targets, num_targets);
    auto out = std::make_unique<troupe_callable>();
    out->graph = of.graph;
    out->task = of.task;
    out->session = of.session;
    out->callable = of.session->callable(call.feeds, call.fetches, call.targets);
    out->results = num_fetches;
    return out.release();
  });
}

void troupe_callable_delete(troupe_callable* callable) { destroy(callable); }

troupe_code troupe_callable_run(troupe_callable* callable, const troupe_run_options* options,
                                troupe_tensor* const* values, size_t num_values, troupe_tensor** results,
                                size_t num_results, troupe_status* status) {
  return guarded(__func__, status, [&] {
    const auto to = cleared(results, num_results, "results");
    troupe_callable& of = check(callable, "callable");
    if (num_results != of.results)
      troupe::invalid_argument("the call has {} fetches, but there is room for {} results", of.results, num_results);
    give_tensors(of.callable(tensors_of(values, num_values, "values"), run_options(options)), to.data());
  });
}
