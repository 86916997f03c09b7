// print_saved_bytes MODEL: the storages that the model's forward keeps for its backward, as JSON, for
// tests/zoo/compare_saved.py.
#include <cstdio>

#include "case_runner.h"
#include "files/json.h"
#include "meshwright/frontend.h"
#include "meshwright/saved.h"

namespace meshwright::test {
namespace {

Status print(const std::string& model) {
  Result<host::PluginHost> host = open_host();
  if (!host) return host.error();
  const Result<std::string> id = host->frontend_for(model);
  if (!id) return id.error();
  const Result<std::shared_ptr<Frontend>> frontend = host->create<Frontend>("frontend", *id);
  if (!frontend) return frontend.error();
  Result<Graph> graph = (*frontend)->read(model);
  if (!graph) return graph.error();
  drop_dead_nodes(*graph);
  const std::unique_ptr<OpTable> ops = open_ops();
  if (const auto refused = gather_composites(*graph, *ops); !refused) return refused.error();
  const Result<TrainingGraph> training = differentiate(*graph, *ops);
  if (!training) return training.error();
  host::Json storages = host::Json::Array{};
  std::int64_t sum = 0;
  for (const SavedStorage& storage : saved_storages(*training, *ops)) {
    const Value& value = graph->values[storage.value];
    host::Json one, saved = host::Json::Array{};
    for (const ValueId id : storage.saved) saved.push(graph->values[id].name);
    one.add("name", value.name).add("op", value.producer == kNoId ? "" : graph->nodes[value.producer].op);
    one.add("module", value.producer == kNoId ? "" : graph->nodes[value.producer].module_path);
    one.add("type", to_string(value.type)).add("bytes", storage.bytes).add("saved", std::move(saved));
    storages.push(std::move(one));
    sum += storage.bytes;
  }
  host::Json answer;
  answer.add("saved_bytes", sum).add("storages", std::move(storages));
  const std::string text = host::write_json(answer, true);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return Done{};
}

}  // namespace
}  // namespace meshwright::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: print_saved_bytes MODEL\n");
    return 2;
  }
  const meshwright::Status status = meshwright::test::print(argv[1]);
  if (status) return 0;
  std::fprintf(stderr, "print_saved_bytes: %s\n", status.error().message.c_str());
  return 1;
}
