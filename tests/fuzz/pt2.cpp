// A .pt2 archive, or the text of the models/model.json in one.
#include "meshwright/frontend.h"
#include "mutate.h"
#include "target.h"

using namespace meshwright;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::shared_ptr<Frontend> frontend =
      fuzz::plugins().create<Frontend>("frontend", "torch_export").value();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const fuzz::MemoryFile file(input.starts_with("{") ? fuzz::zipped_model(input) : std::string(input));
  Result<Graph> graph = frontend->read(file.path());
  if (!graph)
    fuzz::expect_refusal(graph.error());
  else
    fuzz::exercise(std::move(*graph));
  if (const auto tensors = frontend->tensors(file.path()); !tensors) fuzz::expect_refusal(tensors.error());
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return fuzz::mutate_json(data, size, most, seed);
}
