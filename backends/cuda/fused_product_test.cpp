// Which activations, and which sums, become a part of the product before them, in steps of small programs: by the
// places at which the step builder puts them, and by what the step computes, in memory that shows each launch only what
// it says it reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chains.h"
#include "guarded_kernel.h"
#include "host_product.h"
#include "step_on_host.h"

namespace meshwright::cuda {
namespace {

// What a step has, and what it makes of the same inputs.
struct Ran {
  int relu = 0, gelu = 0;  // products with these
  int added = 0;           // and those that add something else than a bias
  int kept = 0;            // of those with GELU, whose operand is kept
  int products = 0, chains = 0, links = 0;
  std::int64_t peak_bytes = 0;
  std::vector<float> output;
};

// What a library has.
enum class Library : std::uint8_t { none, products, all };

// x·wᵀ + bias, and activations of it, all of `size`×`size` on one rank. x, w and the bias are used again at the end, so
// that the arena puts nothing into their places before that.
class FusedProduct : public ::testing::Test {
 protected:
  static constexpr std::size_t kWorkspace = 200, kWorkspaceOfMore = 700;

  void start(std::int64_t size) {
    x_ = build_.input("x", meshwright::testing::count_up({size, size}), "RR");
    w_ = build_.input("w", meshwright::testing::count_up({size, size}), "RR");
    bias_ = build_.input("bias", meshwright::testing::count_up({size}), "R");
  }
  ProgramValueId linear() {
    const ProgramValueId made = build_.compute("aten.linear", {x_, w_, bias_}, "RR");
    std::vector<ProgramOperand>& operands = build_.program.instructions.back().operands;
    for (std::size_t i = 0; i < operands.size(); ++i) operands[i].name = std::array{"input", "weight", "bias"}[i];
    return made;
  }
  ProgramValueId relu(ProgramValueId of) { return build_.compute("aten.relu", {of}, "RR"); }
  ProgramValueId gelu(ProgramValueId of, const char* approximate = "tanh") {
    return build_.compute("aten.gelu", {of}, "RR", {{"approximate", std::string(approximate)}});
  }
  ProgramValueId sigmoid(ProgramValueId of) { return build_.compute("aten.sigmoid", {of}, "RR"); }
  ProgramValueId multiplied_by_element(ProgramValueId a, ProgramValueId b) {
    return build_.compute("aten.mul.Tensor", {a, b}, "RR");
  }
  ProgramValueId add(ProgramValueId a, ProgramValueId b) { return build_.compute("aten.add.Tensor", {a, b}, "RR"); }
  ProgramValueId view(ProgramValueId of) {
    const ProgramValueId made = build_.compute("aten.view", {of}, "RR");
    Compute& compute = *build_.program.instructions.back().compute();
    compute.alias = compute.keeps_order = true;
    return made;
  }
  ProgramValueId shaped(ProgramValueId value, const std::vector<std::int64_t>& shape) {
    ShardedType& type = build_.program.values[value].type;
    type = {{type.type.dtype, shape}, whole_dimensions(shape), type.layout};
    return value;
  }
  // By a product, so that no chain goes on.
  ProgramValueId multiplied(ProgramValueId by) { return build_.compute("aten.mm", {by, w_}, "RR"); }
  // Its memory is nobody else's until the end.
  ProgramValueId kept(ProgramValueId value) {
    build_.output(value);
    return value;
  }
  void end(ProgramValueId output) { hand_out(add(add(output, x_), bias_)); }
  void hand_out(ProgramValueId output) { build_.output(output_ = output); }

  Ran run(Library library, DType dtype = DType::float32) {
    Program program = build_.program;
    for (ProgramValue& value : program.values) value.type.type.dtype = dtype;
    const StepOnHost built(build_, std::move(program), plans_of(library));
    arena_ = built.arena;
    for (const ProgramInput& each : built.program.inputs) {
      const std::int64_t elements = built.has_place(each.value) ? built.program.local(each.value).elements() : 0;
      for (std::int64_t i = 0; i < elements; ++i)
        store(built.place(each.value), static_cast<Element>(dtype), i,
              std::sin(0.7 * static_cast<double>(i * (each.value + 1))));
    }
    Ran ran;
    ran.peak_bytes = built.step.peak_bytes;
    for (const std::vector<Command>& commands : built.step.commands) {
      for (const Command& command : commands) do_one(command, built.memory, built.step.block, ran);
    }
    const Seen& made = built.handed(output_);
    for (std::int64_t i = 0; i < made.type.elements(); ++i)
      ran.output.push_back(load<float>(made.data, static_cast<Element>(dtype), i));
    return ran;
  }
  // With what stands behind products in them, and without.
  Ran expect_same(DType dtype = DType::float32, float tolerance = 1e-5F) {
    const Ran fused = run(Library::all, dtype), apart = run(Library::products, dtype);
    EXPECT_EQ(apart.relu + apart.gelu + apart.added, 0);
    EXPECT_EQ(fused.products, apart.products);
    EXPECT_EQ(fused.peak_bytes, apart.peak_bytes);
    EXPECT_EQ(fused.output.size(), apart.output.size());
    for (std::size_t i = 0; i < apart.output.size(); ++i)
      EXPECT_NEAR(fused.output[i], apart.output[i], tolerance * std::max(1.0F, std::abs(apart.output[i]))) << i;
    return fused;
  }
  std::int64_t place_of(ProgramValueId value) const { return arena_.offsets[value]; }

  meshwright::testing::ProgramBuilder build_{{1}};
  ProgramValueId x_ = kNoId, w_ = kNoId, bias_ = kNoId, output_ = kNoId;

 private:
  static LibraryPlans plans_of(Library library) {
    if (library == Library::none) return {};
    return {[library](const ProductShape& shape) -> Result<std::optional<std::size_t>> {
              if (shape.activation == Activation::none && !shape.adds) return std::optional(kWorkspace);
              return library == Library::all ? std::optional(kWorkspaceOfMore) : std::nullopt;
            },
            {}};
  }
  static void do_one(const Command& command, std::span<std::byte> all, const Block& block, Ran& ran) {
    if (const auto* launch = std::get_if<Launch>(&command.what)) {
      if (launch->kernel == KernelId::chain) {
        ++ran.chains;
        ran.links += arguments_of(*launch).links;
      }
      EXPECT_EQ(run_guarded(*launch, {&all, 1}), "");
    }
    const auto* product = std::get_if<Product>(&command.what);
    if (product == nullptr) return;
    const ProductShape& shape = product->shape;
    ++ran.products;
    ran.relu += shape.activation == Activation::relu ? 1 : 0;
    ran.gelu += shape.activation == Activation::gelu ? 1 : 0;
    ran.kept += shape.keeps ? 1 : 0;
    ran.added += shape.adds ? 1 : 0;
    EXPECT_GE(product->workspace_bytes,
              shape.activation == Activation::none && !shape.adds ? kWorkspace : kWorkspaceOfMore);
    EXPECT_GE(product->workspace, block.scratch(kCompute));
    EXPECT_LE(product->workspace + product->workspace_bytes, block.scratch(kCompute) + block.scratch_bytes[kCompute]);
    const Launch launch = launch_of(*product);
    EXPECT_FALSE(overlap({{product->workspace, product->workspace_bytes}}, launch.reads));
    EXPECT_EQ(run_guarded(launch, {&all, 1}), "");
  }

  Arena arena_;
};

TEST_F(FusedProduct, IsAReluWhoseOperandNobodyElseReads) {
  start(16);
  end(multiplied(relu(linear())));
  const Ran fused = expect_same(DType::float32, 0);
  EXPECT_EQ(fused.relu, 1);
  EXPECT_EQ(fused.chains + 1, run(Library::products).chains);
  EXPECT_EQ(expect_same(DType::bfloat16, 0).relu, 1);
}

TEST_F(FusedProduct, IsNoReluWhoseOperandIsReadLater) {
  start(16);
  const ProgramValueId sum = linear();
  end(add(multiplied(relu(sum)), sum));
  EXPECT_EQ(expect_same().relu, 0);
}

TEST_F(FusedProduct, IsAGeluWithTanh) {
  start(16);
  end(multiplied(gelu(linear())));
  const Ran fused = expect_same();
  EXPECT_EQ(fused.gelu, 1);
  EXPECT_EQ(fused.kept, 0);
  EXPECT_EQ(expect_same(DType::bfloat16, 0x1p-5F).gelu, 1);
}

TEST_F(FusedProduct, KeepsAGelusOperandThatIsReadLater) {
  start(16);
  const ProgramValueId sum = linear();
  end(add(multiplied(gelu(sum)), sum));
  EXPECT_EQ(expect_same().kept, 1);
  EXPECT_EQ(expect_same(DType::bfloat16, 0x1p-5F).kept, 1);
}

// As what is sent, or reduced, beside the computing.
TEST_F(FusedProduct, KeepsAGelusOperandThatTheCommunicationStreamReads) {
  start(16);
  const ProgramValueId sum = linear(), made = gelu(sum), aside = build_.compute("aten.neg", {sum}, "RR");
  build_.program.instructions.back().stream = meshwright::Stream::communication;
  end(add(multiplied(made), aside));
  EXPECT_EQ(expect_same().kept, 1);
}

// In scratch: a larger workspace stands behind it. While sizes are unknown it seems to lie where the arena begins, as
// the sum does in the place of x; yet the size that is found then has room for the workspace.
TEST_F(FusedProduct, LeavesACopyOfAFactor) {
  start(16);
  const ProgramValueId narrow = build_.input("narrow", meshwright::testing::count_up({8, 8}), "RR"),
                       turned = view(build_.compute("aten.neg", {x_}, "RR"));
  Compute& turns = *build_.program.instructions.back().compute();
  turns.keeps_order = false;
  turns.transposes = true;
  const ProgramValueId rows = shaped(view(turned), {32, 8});  // through no strides: eight numbers of a column are a row
  const ProgramValueId sum = build_.compute("aten.mm", {rows, narrow}, "RR");
  for (const ProgramValueId stays : {narrow, sum}) build_.output(stays);
  hand_out(gelu(sum));
  EXPECT_EQ(expect_same().kept, 1);
  EXPECT_LT(place_of(sum), 32 * 8 * 4);  // where the copy ends
}

// Forward and backward: gradients read what is before GELU, what ReLU makes, and what products read.
TEST_F(FusedProduct, IsBothOfAnMlpsInItsStep) {
  start(16);
  const ProgramValueId sum = linear(), first = gelu(sum), second = relu(multiplied(first));
  const ProgramValueId slope =
      build_.compute("aten.threshold_backward", {multiplied(multiplied(second)), second}, "RR", {{"threshold", 0.0}});
  const ProgramValueId weight = build_.compute("aten.mm", {slope, first}, "RR");
  const ProgramValueId input =
      build_.compute("aten.gelu_backward", {multiplied(slope), sum}, "RR", {{"approximate", std::string("tanh")}});
  end(add(input, weight));
  const Ran fused = expect_same();
  EXPECT_EQ(fused.relu, 1);
  EXPECT_EQ(fused.kept, 1);
}

// Rows of which are no multiple of eight numbers.
TEST_F(FusedProduct, KeepsNoOperandThatCuBlasLtWouldRefuse) {
  start(12);
  const ProgramValueId kept = linear();
  const ProgramValueId first = multiplied(gelu(kept));
  end(add(add(first, multiplied(gelu(linear()))), kept));
  const Ran fused = expect_same();
  EXPECT_EQ(fused.gelu, 1);
  EXPECT_EQ(fused.kept, 0);
}

TEST_F(FusedProduct, IsNoGeluWithErf) {
  start(16);
  end(multiplied(gelu(linear(), "none")));
  EXPECT_EQ(expect_same().gelu, 0);
}

TEST_F(FusedProduct, MaySeeTheProductThroughAView) {
  start(16);
  end(multiplied(relu(view(linear()))));
  EXPECT_EQ(expect_same().relu, 1);
}

// Which reads the activation's result where it would have read the product's.
TEST_F(FusedProduct, LeavesTheRestOfItsChain) {
  start(16);
  end(multiplied(add(relu(linear()), x_)));
  const Ran fused = expect_same();
  EXPECT_EQ(fused.relu, 1);
  EXPECT_EQ(fused.chains, run(Library::products).chains);
}

// What an activation makes there may stay in registers, so that it is left where its operand is written anyway.
TEST_F(FusedProduct, IsNoneInTheMiddleOfAChain) {
  start(16);
  const ProgramValueId sum = linear();
  end(add(multiplied(add(gelu(sum), x_)), sum));
  EXPECT_EQ(expect_same().gelu, 0);
}

// What the product reads was freed between both, and the activation's result lies there.
TEST_F(FusedProduct, OverwritesNoOperandOfItsProduct) {
  start(16);
  const ProgramValueId sum = linear(), made = relu(sum);
  hand_out(multiplied(made));
  EXPECT_EQ(expect_same().relu, 0);
  EXPECT_EQ(place_of(made), place_of(x_));
}

// What the communication stream does between both waits for the product.
TEST_F(FusedProduct, IsNoneBehindAnotherStream) {
  start(16);
  const ProgramValueId sum = linear(), aside = build_.compute("aten.neg", {x_}, "RR");
  build_.program.instructions.back().stream = meshwright::Stream::communication;
  end(add(multiplied(relu(sum)), aside));
  EXPECT_EQ(expect_same().relu, 0);
}

// A residual's sum, in either order, with the bias that the product adds, too. What products read stays where it is, as
// it does where gradients want it.
TEST_F(FusedProduct, AddsWhatIsAddedBehindIt) {
  start(16);
  kept(w_);
  const ProgramValueId first = kept(add(linear(), x_)), second = kept(add(w_, multiplied(first)));
  end(multiplied(second));
  const Ran fused = expect_same();
  EXPECT_EQ(fused.added, 3);  // and x behind the last one, whose chain goes on with the bias where it is one
  EXPECT_EQ(fused.chains + 2, run(Library::products).chains);
  EXPECT_EQ(expect_same(DType::bfloat16, 0x1p-2F).added, 3);
}

TEST_F(FusedProduct, AddsNothingToWhatIsReadLater) {
  start(16);
  const ProgramValueId sum = linear(), read = kept(add(sum, x_));
  hand_out(add(kept(multiplied(read)), sum));
  EXPECT_EQ(expect_same().added, 0);
}

TEST_F(FusedProduct, AddsNoProductToItself) {
  start(16);
  const ProgramValueId sum = linear();
  end(kept(multiplied(kept(add(sum, sum)))));
  EXPECT_EQ(expect_same().added, 0);
}

TEST_F(FusedProduct, AddsNoMoreThanASum) {
  start(16);
  const ProgramValueId scaled = build_.compute("aten.add.Tensor", {linear(), x_}, "RR", {{"alpha", 0.5}}),
                       less = build_.compute("aten.sub.Tensor", {multiplied(kept(scaled)), x_}, "RR");
  end(kept(multiplied(kept(less))));
  EXPECT_EQ(expect_same().added, 0);
}

// A gradient of three products' input.
TEST_F(FusedProduct, AddsUpProducts) {
  start(16);
  kept(w_);
  const ProgramValueId first = multiplied(x_), second = add(first, multiplied(w_));
  end(kept(add(linear(), second)));
  const Ran fused = expect_same();
  EXPECT_EQ(fused.added, 2);
}

// As a gradient's does, where the one of a weight comes between it and what it is added to.
TEST_F(FusedProduct, WaitsForWhatItIsAddedTo) {
  start(16);
  for (const ProgramValueId input : {x_, w_, bias_}) kept(input);
  const ProgramValueId sum = linear();
  kept(multiplied(x_));
  hand_out(multiplied(kept(add(sum, x_))));
  EXPECT_EQ(expect_same().added, 1);
}

TEST_F(FusedProduct, DoesNotWaitWhereItsOperandIsOverwritten) {
  start(16);
  kept(w_);
  const ProgramValueId read = multiplied(x_), sum = multiplied(read), between = kept(multiplied(x_));
  hand_out(multiplied(kept(add(sum, x_))));
  EXPECT_EQ(expect_same().added, 0);
  EXPECT_EQ(place_of(between), place_of(read));
}

// The gate of a layer, and what goes through it, between which is a product.
TEST_F(FusedProduct, LetsAFunctionWait) {
  start(16);
  for (const ProgramValueId input : {x_, w_}) kept(input);
  const ProgramValueId gate = sigmoid(x_);
  hand_out(multiplied(kept(multiplied_by_element(gate, multiplied(w_)))));
  const Ran waits = run(Library::all);
  EXPECT_EQ(waits.chains, 1);
  EXPECT_EQ(waits.links, 2);

  build_ = meshwright::testing::ProgramBuilder{{1}};  // the same, with something between that nothing passes
  start(16);
  for (const ProgramValueId input : {x_, w_}) kept(input);
  const ProgramValueId same_gate = sigmoid(x_), aside = build_.compute("aten.neg", {x_}, "RR");
  build_.program.instructions.back().stream = meshwright::Stream::communication;
  kept(aside);
  hand_out(multiplied(kept(multiplied_by_element(same_gate, multiplied(w_)))));
  const Ran apart = run(Library::all);
  EXPECT_EQ(apart.chains, 3);
  EXPECT_EQ(apart.output, waits.output);
}

TEST_F(FusedProduct, LetsNoFunctionWaitWhoseOperandIsOverwritten) {
  start(16);
  kept(w_);
  const ProgramValueId read = multiplied(x_), gate = sigmoid(read), through = multiplied(w_);
  hand_out(multiplied(kept(multiplied_by_element(gate, through))));
  EXPECT_EQ(run(Library::all).chains, 2);
  EXPECT_EQ(place_of(through), place_of(read));
}

TEST_F(FusedProduct, AddsAndIsAnActivation) {
  start(16);
  kept(w_);
  end(multiplied(kept(relu(add(linear(), x_)))));
  const Ran fused = expect_same();
  EXPECT_EQ(fused.added, 2);
  EXPECT_EQ(fused.relu, 1);
}

TEST_F(FusedProduct, IsNoneWithoutALibrary) {
  start(16);
  end(multiplied(relu(linear())));
  EXPECT_EQ(run(Library::none).products, 0);
}

}  // namespace
}  // namespace meshwright::cuda
