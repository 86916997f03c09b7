// Recurrent layers, on as many examples as the rank has.
#include "meshwright/plugin.h"
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

// The last result is for the op's own gradient, which autograd makes by itself.
Result<EmittedOp> recurrent(const EmitterCall& call, const CallText& text) {
  const Node node = call.node();
  const std::string cell = node.text("cell", "");
  const auto truth = [&](const char* name) { return std::string(node.boolean(name, false) ? "True" : "False"); };
  const std::string state =
      cell == "lstm" ? "(" + text.text_of("hx") + ", " + text.text_of("cx") + ")" : text.text_of("hx");
  const std::string name = std::string(cell == "tanh" || cell == "relu" ? "rnn_" : "") + cell;
  return EmittedOp{.text = "torch." + name + "(" + text.text_of("input") + ", " + state + ", " +
                           text.text_of("params") + ", has_biases=" + truth("has_biases") + ", num_layers=" +
                           std::to_string(node.integer("num_layers", 1)) + ", dropout=0.0, train=" + truth("train") +
                           ", bidirectional=" + truth("bidirectional") + ", batch_first=" + truth("batch_first") + ")",
                   .values = call.results.size() - 1};
}

// Layers that no family computes: those with dropout between them draw random numbers.
Result<EmittedOp> layers(const EmitterCall& call, const CallText& text) {
  const Node node = call.node();
  const bool drops = node.number("dropout", 0) != 0 && node.boolean("train", false);
  return drops ? write_drawn_alike(call, text) : EmittedOp{};
}

constexpr TorchOp kOps[] = {
    {"torch:meshwright.recurrent", "", recurrent}, {"torch:aten.lstm.input", "", layers},
    {"torch:aten.lstm.data", "", layers},          {"torch:aten.gru.input", "", layers},
    {"torch:aten.gru.data", "", layers},           {"torch:aten.rnn_tanh.input", "", layers},
    {"torch:aten.rnn_tanh.data", "", layers},      {"torch:aten.rnn_relu.input", "", layers},
    {"torch:aten.rnn_relu.data", "", layers},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_recurrent", "0.1.0", "Apache-2.0", "Recurrent layers, as PyTorch", kServes.data(),
                  nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
