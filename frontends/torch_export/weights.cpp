#include "weights.h"

#include <cstring>

#include "translate.h"

namespace meshwright::torch_export {

namespace {

using Places = std::unordered_map<std::string, WeightPlace>;

// The elements that a place spans in its storage, from the first element of the storage to the last of the tensor; -1
// if that is no number, or the place is none.
std::int64_t span_of(const WeightPlace& place) {
  const std::vector<std::int64_t>& shape = place.tensor.shape;
  if (place.strides.size() != shape.size() || place.offset < 0) return -1;
  std::int64_t last = place.offset;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t step = 0;
    if (shape[i] == 0) return 0;
    if (place.strides[i] < 0 || __builtin_mul_overflow(place.strides[i], shape[i] - 1, &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return -1;
    }
  }
  return __builtin_add_overflow(last, 1, &last) ? -1 : last;
}

// Row after row of the dense tensor, whose last dimension is copied element by element.
void copy_strided(const std::string& payload, const WeightPlace& place, Tensor& tensor) {
  const auto size = static_cast<std::size_t>(size_bytes(tensor.type().dtype));
  const std::vector<std::int64_t>& shape = tensor.shape();
  std::vector<std::int64_t> index(shape.size(), 0);
  std::int64_t from = place.offset;
  std::byte* to = tensor.bytes().data();
  for (std::int64_t i = 0; i < tensor.elements(); ++i, to += size) {
    std::memcpy(to, payload.data() + static_cast<std::size_t>(from) * size, size);
    for (std::size_t d = shape.size(); d-- > 0;) {
      from += place.strides[d];
      if (++index[d] < shape[d]) break;
      from -= place.strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

class TensorReader {
 public:
  TensorReader(const std::string& path, const ExportedProgram& program, const Archive& archive)
      : path_(path), program_(program), archive_(archive) {}

  Result<std::map<std::string, Tensor>> run() {
    auto weights = parse_weights(archive_.weights);
    if (!weights) return add_context(path_, weights.error());
    auto constants = parse_constants(archive_.constants);
    if (!constants) return add_context(path_, constants.error());
    const auto used = used_values(program_);
    for (const InputSpec& input : program_.inputs) {
      if (input.target.empty() || !used.contains(input.value)) continue;
      const bool is_weight = weights->contains(input.target);
      const Places& places = is_weight ? *weights : *constants;
      const auto place = places.find(input.target);
      if (place == places.end() || !place->second.has_bytes) continue;
      const std::string entry =
          archive_.root + (is_weight ? "data/weights/" : "data/constants/") + place->second.payload;
      if (Status status = add_tensor(input, place->second, entry); !status) return status.error();
    }
    return std::move(tensors_);
  }

 private:
  Status add_tensor(const InputSpec& input, const WeightPlace& place, const std::string& entry) {
    const std::string where = path_ + ": tensor '" + input.target + "'";
    if (!archive_.byte_order.empty() && archive_.byte_order != "little") {
      return bad_input(path_ + ": its tensors are of the byte order '" + archive_.byte_order +
                       "', and this program reads little; write the file on a little-endian machine");
    }
    if (!place.is_raw) return bad_input(where + " is a pickled object, which only Python reads; export plain tensors");
    const auto declared = program_.tensors.find(input.value);
    if (declared == program_.tensors.end()) return bad_input(where + " has no type in the file");
    auto type = type_of(input.value, declared->second);
    if (!type) return add_context(path_, type.error());
    if (place.tensor.shape != type->shape || dtype_of(place.tensor.dtype_code) != type->dtype) {
      return bad_input(where + " is stored with another type than the " + to_string(*type) + " of the graph");
    }
    const Result<std::string> payload = read_payload(path_, entry);
    if (!payload) return payload.error();
    const std::int64_t span = span_of(place);
    if (span < 0) return bad_input(where + " has strides or an offset that nothing can have");
    const auto held = static_cast<std::int64_t>(payload->size()) / size_bytes(type->dtype);
    if (span > held) {
      return bad_input(where + " needs " + std::to_string(span) + " elements, and " + entry + " has " +
                       std::to_string(held) + "; the file was cut short, or it was written wrong");
    }
    Tensor tensor(std::move(*type));
    copy_strided(*payload, place, tensor);
    tensors_.insert_or_assign(input.value, std::move(tensor));
    return Done{};
  }

  const std::string& path_;
  const ExportedProgram& program_;
  const Archive& archive_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace

Result<std::map<std::string, Tensor>> read_tensors(const std::string& path, const ExportedProgram& program,
                                                   const Archive& archive) {
  return TensorReader(path, program, archive).run();
}

}  // namespace meshwright::torch_export
