// serial_gradients MODEL.pt2 TENSORS.json: runs one training step's forward and backward on one device and prints the
// loss and every parameter's gradient as JSON. TENSORS.json gives each source's numbers by its name in the model
// (parameters and buffers) or in the graph (what the user feeds). For tests/gradients/compare_models.py.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "case_runner.h"
#include "files/json.h"
#include "meshwright/frontend.h"

namespace meshwright::test {
namespace {

std::string name_of(const Graph& graph, const Source& source) {
  return source.names.empty() ? graph.values[source.value].name : source.names[0];
}

double number_of(const host::Json& json) {
  if (const auto* whole = std::get_if<std::int64_t>(&json.value())) return static_cast<double>(*whole);
  if (const auto* flag = std::get_if<bool>(&json.value())) return *flag ? 1 : 0;
  return std::get<double>(json.value());
}

Result<std::map<ValueId, Tensor>> read_sources(const Graph& graph, const host::Json& tensors) {
  std::map<ValueId, Tensor> sources;
  for (const Source& source : graph.sources) {
    const host::Json* given = tensors.find(name_of(graph, source));
    if (!given) given = tensors.find(graph.values[source.value].name);
    if (!given) return bad_input("no numbers for '" + name_of(graph, source) + "'");
    const auto& numbers = std::get<host::Json::Array>(given->value());
    Tensor tensor(graph.type(source.value));
    if (static_cast<std::int64_t>(numbers.size()) != tensor.elements()) {
      return bad_input("'" + name_of(graph, source) + "' has another number of elements");
    }
    for (std::size_t i = 0; i < numbers.size(); ++i) tensor.set(static_cast<std::int64_t>(i), number_of(numbers[i]));
    sources.emplace(source.value, std::move(tensor));
  }
  return sources;
}

Status run(const std::string& model, const std::string& tensors_path) {
  Result<host::PluginHost> host = open_host();
  if (!host) return host.error();
  Result<std::shared_ptr<Frontend>> frontend = host->create<Frontend>("frontend", "torch_export");
  if (!frontend) return frontend.error();
  Result<Graph> graph = (*frontend)->read(model);
  if (!graph) return graph.error();
  const std::unique_ptr<OpTable> ops = open_ops();
  if (const auto refused = gather_composites(*graph, *ops); !refused) return refused.error();
  std::ifstream file(tensors_path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Result<host::Json> tensors = host::parse_json(text, tensors_path);
  if (!tensors) return tensors.error();
  const Result<std::map<ValueId, Tensor>> sources = read_sources(*graph, *tensors);
  if (!sources) return sources.error();
  const Result<TrainingGraph> training = differentiate(*graph, *ops);
  if (!training) return training.error();
  const Result<std::vector<Tensor>> values = interpret(training->graph, *ops, *sources);
  if (!values) return values.error();
  host::Json gradients;
  for (const Source& source : graph->sources) {
    const ValueId gradient = training->gradients[source.value];
    if (source.kind != SourceKind::parameter || gradient == kNoId) continue;
    host::Json numbers = host::Json::Array{};
    for (std::int64_t i = 0; i < (*values)[gradient].elements(); ++i) numbers.push((*values)[gradient].get(i));
    gradients.add(name_of(*graph, source), std::move(numbers));
  }
  host::Json answer;
  answer.add("loss", (*values)[graph->outputs[0].value].get(0));
  answer.add("gradients", std::move(gradients));
  const std::string written = host::write_json(answer, true);
  std::fwrite(written.data(), 1, written.size(), stdout);
  return Done{};
}

}  // namespace
}  // namespace meshwright::test

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: serial_gradients MODEL.pt2 TENSORS.json\n");
    return 2;
  }
  const meshwright::Status status = meshwright::test::run(argv[1], argv[2]);
  if (status) return 0;
  std::fprintf(stderr, "serial_gradients: %s\n", status.error().message.c_str());
  return 1;
}
