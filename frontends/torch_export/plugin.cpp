#include "meshwright/plugin.h"

#include <filesystem>

#include "archive.h"
#include "bind.h"
#include "exported_program.h"
#include "meshwright/frontend.h"
#include "torch_export.h"
#include "translate.h"
#include "weights.h"

namespace meshwright::torch_export {

namespace {

class TorchExport final : public Frontend {
  Result<Graph> do_read(const std::string& path, const OpenDimensions& open) const override {
    auto archive = read_archive(path);
    if (!archive) return archive.error();
    auto program = parse_program(archive->model);
    if (!program) return add_context(path, program.error());
    if (Status status = bind_dimensions(*program, open); !status) return add_context(path, status.error());
    auto graph = translate(*program, *archive, std::filesystem::path(path).stem().string());
    if (!graph) return add_context(path, graph.error());
    return graph;
  }

  Result<std::map<std::string, Tensor>> do_tensors(const std::string& path) const override {
    auto archive = read_archive(path);
    if (!archive) return archive.error();
    auto program = parse_program(archive->model);
    if (!program) return add_context(path, program.error());
    return read_tensors(path, *program, *archive);
  }
};

void* create(const Config&, Error&) { return static_cast<Frontend*>(new TorchExport); }
void destroy(void* object) { delete static_cast<Frontend*>(object); }

constexpr const char* kSuffixes[] = {".pt2", nullptr};

}  // namespace

std::unique_ptr<Frontend> make_torch_export() { return std::make_unique<TorchExport>(); }

}  // namespace meshwright::torch_export

MESHWRIGHT_PLUGIN("frontend", "torch_export", "0.1.0", "Apache-2.0", "Reads .pt2 files written by torch.export.save",
                  meshwright::torch_export::kSuffixes, nullptr, 0, meshwright::torch_export::create,
                  meshwright::torch_export::destroy)
