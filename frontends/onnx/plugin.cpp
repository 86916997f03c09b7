#include "meshwright/plugin.h"

#include <filesystem>

#include "graph_edit.h"
#include "meshwright/log.h"
#include "onnx.h"
#include "patterns/patterns.h"
#include "sources.h"
#include "translate.h"

namespace meshwright::onnx {

namespace {

class Onnx final : public Frontend {
 public:
  explicit Onnx(Options options) : options_(std::move(options)) {}

 private:
  static Result<Model> open(const std::string& path) {
    Result<Model> model = parse_model(path);
    if (!model) return model;
    if (Status status = inline_functions(*model); !status) return add_context(path, status.error());
    if (Status status = check_stored(*model, path); !status) return status.error();
    return model;
  }

  // What lies in other files: nothing that is wrong or missing stays unsaid, whether it is read later or not.
  static Status check_stored(const Model& model, const std::string& path) {
    const StoredBytes bytes(path);
    std::size_t missing = 0;
    std::string first;
    for (const auto& [name, tensor] : model.initializers) {
      if (Status status = bytes.check(tensor); !status) return status.error();
      if (bytes.has(tensor)) continue;
      if (missing++ == 0) first = "'" + name + "' in '" + tensor.external->location + "'";
    }
    if (missing == 0) return Done{};
    log(LogLevel::warning, "onnx", std::to_string(missing) + " of the model's tensors lie in files that are not there, the first " + first +
                                       "; it is read without them: put the files beside the model if their numbers matter");
    return Done{};
  }

  Result<Graph> do_read(const std::string& path, const OpenDimensions& open_dimensions) const override {
    const Result<Model> model = open(path);
    if (!model) return model.error();
    const StoredBytes bytes(path);
    Result<Constants> constants = find_constants(*model, bytes);
    if (!constants) return add_context(path, constants.error());
    Translator translator(*model, *constants, options_);
    Result<Graph> graph = translator.run(open_dimensions, std::filesystem::path(path).stem().string());
    if (!graph) return add_context(path, graph.error());
    constants->literals.insert(translator.computed().begin(), translator.computed().end());
    apply_patterns(*graph, *constants, bytes, {model->opset, model->producer, options_.patterns});
    for (const std::string& input : drop_unused(*graph)) {
      log(LogLevel::warning, "onnx", "input '" + input + "' is never used and was left out");
    }
    classify_sources(*graph, *constants);
    mark_loss(*graph);
    return graph;
  }

  Result<std::map<std::string, Tensor>> do_tensors(const std::string& path) const override {
    const Result<Model> model = open(path);
    if (!model) return model.error();
    const StoredBytes bytes(path);
    Result<Constants> constants = find_constants(*model, bytes);
    if (!constants) return add_context(path, constants.error());
    // What follows from the sizes that the file fixes. A model with open ones has nothing of the kind.
    Translator translator(*model, *constants, options_);
    if (translator.run({}, "")) constants->literals.insert(translator.computed().begin(), translator.computed().end());
    return constant_tensors(*constants, bytes);
  }

  Options options_;
};

constexpr const char* kSuffixes[] = {".onnx", nullptr};

constexpr meshwright_config_key_v1 kKeys[] = {
    {"batch_norm", "text", "", "\"exported\"", "exported: as the file says; training: with the batch's own statistics"},
    {"patterns", "text", "", "\"auto\"",
     "what is recognised from its pieces. auto: what PyTorch's exporters take apart, all in models of others; or all, "
     "or none"},
};

void* create(const Config& config, Error& error) {
  Options options;
  const std::string& batch_norm = config.text("batch_norm");
  if (batch_norm != "exported" && batch_norm != "training") {
    error = bad_input("\"batch_norm\" in [frontend.onnx] can't be \"" + batch_norm +
                      "\"; it is \"exported\" or \"training\"");
    return nullptr;
  }
  options.batch_statistics = batch_norm == "training";
  options.patterns = config.text("patterns");
  if (options.patterns != "auto" && options.patterns != "all" && options.patterns != "none") {
    error = bad_input("\"patterns\" in [frontend.onnx] can't be \"" + options.patterns +
                      "\"; it is \"auto\", \"all\" or \"none\"");
    return nullptr;
  }
  return static_cast<Frontend*>(new Onnx(options));
}

void destroy(void* object) { delete static_cast<Frontend*>(object); }

}  // namespace

std::unique_ptr<Frontend> make_onnx(const Options& options) { return std::make_unique<Onnx>(options); }

}  // namespace meshwright::onnx

MESHWRIGHT_PLUGIN("frontend", "onnx", "0.1.0", "Apache-2.0", "Reads .onnx files of opset 13 to 23",
                  meshwright::onnx::kSuffixes, meshwright::onnx::kKeys, 2, meshwright::onnx::create,
                  meshwright::onnx::destroy)
