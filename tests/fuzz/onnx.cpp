// An ONNX file.
#include "meshwright/frontend.h"
#include "mutate.h"
#include "target.h"

using namespace meshwright;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::shared_ptr<Frontend> frontend = fuzz::plugins().create<Frontend>("frontend", "onnx").value();
  const fuzz::MemoryFile file({reinterpret_cast<const char*>(data), size});
  OpenDimensions open;
  open.batch = 4;
  Result<Graph> graph = frontend->read(file.path(), open);
  if (!graph)
    fuzz::expect_refusal(graph.error());
  else
    fuzz::exercise(std::move(*graph));
  if (const auto tensors = frontend->tensors(file.path()); !tensors) fuzz::expect_refusal(tensors.error());
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return fuzz::mutate_wire(data, size, most, seed);
}
