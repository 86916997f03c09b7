#include "meshwright/op_emitter.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

namespace meshwright {
namespace {

class Says final : public OpEmitter {
 public:
  explicit Says(std::function<Result<EmittedOp>(const EmitterCall&)> says) : says_(std::move(says)) {}

 private:
  Result<EmittedOp> do_emit(const EmitterCall& call) const override { return says_(call); }

  std::function<Result<EmittedOp>(const EmitterCall&)> says_;
};

class Emitters : public testing::Test {
 protected:
  const Mesh mesh_;
  const EmitterCall call_{mesh_, "node_1", "node", "aten.neg", {{"self", "x", {}}}, {}, {{"dim", std::int64_t{2}}},
                          {},    {}};
};

TEST_F(Emitters, ReadTheirCall) {
  const Says emitter([](const EmitterCall& call) -> Result<EmittedOp> {
    EXPECT_EQ(call.operand("other"), nullptr);
    return EmittedOp{.text = "-" + call.operand("self")->text + std::to_string(call.node().integer("dim", 0))};
  });
  EXPECT_EQ(emitter.emit(call_).value().text, "-x2");
}

TEST_F(Emitters, NameTheOpAndTheNodeInTheirErrors) {
  const Says emitter([](const EmitterCall&) -> Result<EmittedOp> { return bad_input("no such form"); });
  EXPECT_EQ(emitter.emit(call_).error().message, "aten.neg at 'node_1': no such form");
}

TEST_F(Emitters, MayNotThrow) {
  const Says emitter([](const EmitterCall&) -> Result<EmittedOp> { throw std::runtime_error("out of range"); });
  const Result<EmittedOp> emitted = emitter.emit(call_);
  EXPECT_EQ(emitted.error().code, ErrorCode::plugin_failed);
  EXPECT_EQ(emitted.error().message, "aten.neg at 'node_1': the emitter threw an exception: out of range");
}

TEST_F(Emitters, WriteOneLine) {
  const Says emitter([](const EmitterCall&) -> Result<EmittedOp> { return EmittedOp{.text = "x\nimport os"}; });
  EXPECT_EQ(emitter.emit(call_).error().code, ErrorCode::plugin_failed);
}

}  // namespace
}  // namespace meshwright
