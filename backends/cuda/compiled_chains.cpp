#include "compiled_chains.h"

#include <map>
#include <string>
#include <variant>

#include "chain_source.h"
#include "chains.h"

namespace meshwright::cuda {

namespace {

class Shapes {
 public:
  void number(std::vector<Command>& commands) {
    for (Command& command : commands) {
      auto* launch = std::get_if<Launch>(&command.what);
      if (launch == nullptr || launch->kernel != KernelId::chain) continue;
      const auto [found, is_new] = numbers_.emplace(chain_shape(arguments_of(*launch)), shapes_.size() + 1);
      if (is_new) shapes_.push_back(found->first);
      launch->compiled = found->second;
    }
  }
  [[nodiscard]] const std::vector<std::string>& shapes() const { return shapes_; }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> shapes_;
};

}  // namespace

Status compile_chains(std::vector<RankStep>& steps, Devices& devices) {
  Shapes shapes;
  for (RankStep& step : steps) {
    for (std::vector<Command>& commands : step.commands) shapes.number(commands);
    shapes.number(step.closing);
    for (auto& [value, handed] : step.handed) shapes.number(handed.commands);
  }
  const Status loaded = devices.load_chains(chain_source(shapes.shapes()), shapes.shapes().size());
  return loaded ? loaded
                : add_context("chains of functions are compiled, without which --set emit.cuda.chains=general does",
                              loaded.error());
}

}  // namespace meshwright::cuda
