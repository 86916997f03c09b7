#include "report/memory_json.h"

#include <algorithm>

namespace meshwright::host {

namespace {

Json::Array shape_json(const TensorType& type) {
  Json::Array shape;
  for (const std::int64_t size : type.shape) shape.push_back(size);
  return shape;
}

// "saved activations" → "saved_activations"
std::string key_of(MemoryKind kind) {
  std::string key = name(kind);
  std::replace(key.begin(), key.end(), ' ', '_');
  return key;
}

Json split_json(const MemorySplit& split) {
  Json json;
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind)
    json.add(key_of(static_cast<MemoryKind>(kind)), split.bytes[kind]);
  return json;
}

Json::Array tensors_json(const MemoryProfile& profile) {
  Json::Array json;
  for (const HeldTensor& tensor : profile.peak_tensors) {
    json.push_back(Json()
                       .add("name", tensor.name)
                       .add("kind", key_of(tensor.kind))
                       .add("dtype", name(tensor.type.dtype))
                       .add("shape", shape_json(tensor.type))
                       .add("copies", tensor.copies)
                       .add("bytes", tensor.bytes)
                       .add("node", tensor.node));
  }
  return json;
}

Json::Array curve_json(const Program& program, const MemoryProfile& profile) {
  Json::Array json;
  for (const MemoryProfile::Point& point : profile.curve) {
    const Instruction& instruction = program.instructions[point.at.instruction];
    const bool frees = instruction.kind() == InstructionKind::free;
    json.push_back(Json()
                       .add("instruction", frees ? "free" : instruction.name)
                       .add("node", instruction.node)
                       .add("phase", name(instruction.phase))
                       .add("microbatch", point.at.microbatch)
                       .add("bytes", point.held.sum())
                       .add("gathered_bytes", point.held[MemoryKind::gathered]));
  }
  return json;
}

Json::Array nodes_json(const MemoryProfile& profile) {
  Json::Array json;
  for (const NodeMemory& node : profile.nodes) {
    json.push_back(Json()
                       .add("name", node.name)
                       .add("op", node.op)
                       .add("module", node.module_path)
                       .add("fwd_in", node.fwd_in)
                       .add("fwd_tmp", node.fwd_tmp)
                       .add("fwd_out", node.fwd_out)
                       .add("bwd_tmp", node.bwd_tmp)
                       .add("bwd_out", node.bwd_out)
                       .add("saved_bytes", node.saved_bytes));
  }
  return json;
}

}  // namespace

Json account_json(const MemoryAccount& account) {
  return Json()
      .add("program_bytes", account.program_bytes)
      .add("rounding_bytes", account.rounding_bytes)
      .add("fragmentation_bytes", account.fragmentation_bytes)
      .add("driver_bytes", account.driver_bytes)
      .add("context_bytes", account.context_bytes)
      .add("workspace_bytes", account.workspace_bytes)
      .add("communicators", account.communicators)
      .add("communicator_bytes", account.communicator_bytes)
      .add("reserved_bytes", account.reserved_bytes)
      .add("total_bytes", account.total_bytes());
}

Json overheads_json(const MemoryOverheads& overheads) {
  return Json()
      .add("driver_bytes", overheads.driver_bytes)
      .add("context_bytes", overheads.context_bytes)
      .add("workspace_bytes", overheads.workspace_bytes)
      .add("communicator_bytes", overheads.communicator_bytes)
      .add("block_bytes", overheads.block_bytes)
      .add("small_segment_bytes", overheads.small_segment_bytes)
      .add("medium_segment_bytes", overheads.medium_segment_bytes)
      .add("fragmentation", overheads.fragmentation);
}

Json memory_json(const Program& program, const MemoryProfile& profile, const MemoryAccount* account) {
  Json json;
  json.add("model", program.name);
  json.add("devices", program.mesh.devices());
  json.add("saved_bytes", profile.saved_bytes);
  json.add("parameter_bytes", profile.parameter_bytes);
  json.add("gradient_bytes", profile.gradient_bytes);
  json.add("optimizer_bytes", profile.optimizer_bytes);
  json.add("peak_bytes", profile.peak_bytes);
  json.add("peak_node", profile.peak_node);
  if (!profile.curve.empty()) {
    json.add("peak_instruction", profile.peak);
    const MemoryProfile::Point& peak = profile.curve[profile.peak];
    json.add("peak_phase", name(program.instructions[peak.at.instruction].phase));
    json.add("peak_microbatch", peak.at.microbatch);
    json.add("peak_by_kind", split_json(peak.held));
  }
  if (account != nullptr) json.add("memory", account_json(*account));
  json.add("peak_tensors", tensors_json(profile));
  json.add("curve", curve_json(program, profile));
  json.add("nodes", nodes_json(profile));
  return json;
}

}  // namespace meshwright::host
