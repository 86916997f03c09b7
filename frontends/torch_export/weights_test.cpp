// What tensors a file holds. The numbers of the real file are what PyTorch reads from it; the odd files are made here.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "torch_export.h"

namespace meshwright::torch_export {
namespace {

const std::string kWeights = std::string(TEST_MODELS) + "/gpt2_tiny_weights.pt2";

double sum_of(const Tensor& tensor) {
  const auto elements = tensor.as<float>();
  return std::accumulate(elements.begin(), elements.end(), 0.0);
}

TEST(Tensors, AreThoseOfTheGraphAndOfItsTypes) {
  const auto graph = make_torch_export()->read(kWeights);
  const auto tensors = make_torch_export()->tensors(kWeights);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  std::size_t sources = 0;
  for (const Source& source : graph->sources) {
    if (source.kind == SourceKind::user_input) continue;
    const Value& value = graph->values[source.value];
    ASSERT_TRUE(tensors->contains(value.name)) << value.name;
    EXPECT_EQ(tensors->at(value.name).type(), value.type) << value.name;
    ++sources;
  }
  EXPECT_EQ(tensors->size(), sources);  // so the tied weight stands there once
}

TEST(Tensors, HaveTheirValues) {
  const auto tensors = make_torch_export()->tensors(kWeights);
  ASSERT_TRUE(tensors.ok());
  const Tensor& tied = tensors->at("p_inner_lm_head_weight");  // onto which torch.export merged it
  EXPECT_EQ(tied.as<float>()[0], 0.12881579995155334F);
  EXPECT_EQ(tied.as<float>()[50 * 32 - 1], -0.16601675748825073F);
  EXPECT_NEAR(sum_of(tied), 1.9472755789756775, 1e-12);
  EXPECT_NEAR(sum_of(tensors->at("p_inner_transformer_h_1_attn_c_attn_weight")), 11.585751235485077, 1e-12);
  EXPECT_NEAR(sum_of(tensors->at("p_inner_transformer_ln_f_weight")), 31.533400893211365, 1e-12);
  EXPECT_FALSE(tensors->contains("p_inner_transformer_wte_weight"));
}

TEST(Tensors, AreNoneOnTheMetaDevice) {
  for (const char* name : {"gpt2_tiny", "bert_tiny", "vit_tiny", "mlp_tiny"}) {
    const auto tensors = make_torch_export()->tensors(std::string(TEST_MODELS) + "/" + name + ".pt2");
    ASSERT_TRUE(tensors.ok()) << tensors.error().message;
    EXPECT_TRUE(tensors->empty()) << name;
  }
}

// A file of one parameter w, whose place in its payload of 0, 1, 2, ... the test gives.
class OddFiles : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            ("meshwright_odd_" + std::to_string(getpid()) + "_" + info->name() + ".pt2");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void write(const std::map<std::string, std::string>& entries) {
    std::filesystem::remove(path_);
    zip_t* archive = zip_open(path_.c_str(), ZIP_CREATE, nullptr);
    ASSERT_NE(archive, nullptr);
    for (const auto& [name, bytes] : entries) {
      zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
      const zip_int64_t index = zip_file_add(archive, ("m/" + name).c_str(), source, ZIP_FL_ENC_UTF_8);
      ASSERT_GE(index, 0);
      zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
    }
    ASSERT_EQ(zip_close(archive), 0);
  }

  static std::string numbers(const std::vector<std::int64_t>& list) {
    std::string text;
    for (const std::int64_t number : list)
      text += (text.empty() ? "" : ", ") + ("{\"as_int\": " + std::to_string(number) + "}");
    return "[" + text + "]";
  }

  struct Place {
    std::vector<std::int64_t> shape, strides;
    std::int64_t offset = 0;
    int dtype = 7;
    std::string device = "cpu";
    bool pickle = false;
  };

  std::map<std::string, std::string> entries(const Place& place, const std::string& kind = "parameter") const {
    const bool is_constant = kind == "tensor_constant";
    const std::string tensor = R"({"dtype": )" + std::to_string(place.dtype) + R"(, "sizes": )" + numbers(place.shape) +
                               R"(, "requires_grad": false)";
    const std::string model =
        R"({"schema_version": {"major": 8, "minor": 1}, "graph_module": {"graph": {"nodes": [], "tensor_values": {"p_w": )" +
        tensor + R"(}}}, "signature": {"input_specs": [{")" + kind + R"(": {"arg": {"name": "p_w"}, ")" + kind +
        R"(_name": "w"}}], "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "p_w"}}}}]}}})";
    const std::string config =
        R"({"config": {"w": {"path_name": "bytes", "use_pickle": )" + std::string(place.pickle ? "true" : "false") +
        R"(, "tensor_meta": )" + tensor + R"(, "device": {"type": ")" + place.device + R"("}, "strides": )" +
        numbers(place.strides) + R"(, "storage_offset": {"as_int": )" + std::to_string(place.offset) + "}}}}}";
    std::vector<float> payload(12);
    std::iota(payload.begin(), payload.end(), 0.0F);
    const std::string folder = is_constant ? "data/constants/" : "data/weights/";
    return {
        {"models/model.json", model},
        {"byteorder", "little"},
        {folder + (is_constant ? "model_constants_config.json" : "model_weights_config.json"), config},
        {folder + "bytes", std::string(reinterpret_cast<const char*>(payload.data()), payload.size() * sizeof(float))}};
  }

  std::vector<float> read(const Place& place, const std::string& kind = "parameter") {
    write(entries(place, kind));
    const auto tensors = make_torch_export()->tensors(path_.string());
    EXPECT_TRUE(tensors.ok()) << (tensors.ok() ? "" : tensors.error().message);
    if (!tensors.ok() || !tensors->contains("p_w")) return {};
    EXPECT_EQ(tensors->at("p_w").shape(), place.shape);
    const auto elements = tensors->at("p_w").as<float>();
    return {elements.begin(), elements.end()};
  }

  std::string message() {
    const auto tensors = make_torch_export()->tensors(path_.string());
    if (tensors.ok()) return "";
    EXPECT_EQ(tensors.error().code, ErrorCode::bad_input) << tensors.error().message;
    EXPECT_TRUE(tensors.error().message.starts_with(path_.string() + ": ")) << tensors.error().message;
    return tensors.error().message.substr(std::min(tensors.error().message.size(), path_.string().size() + 2));
  }

  std::filesystem::path path_;
};

using Floats = std::vector<float>;

TEST_F(OddFiles, StridesAndOffsetsAreMadeDense) {
  EXPECT_EQ(read({{2, 3}, {3, 1}}), (Floats{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read({{3, 4}, {1, 3}}), (Floats{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
  EXPECT_EQ(read({{2, 2}, {4, 1}, 6}), (Floats{6, 7, 10, 11}));
  EXPECT_EQ(read({{2, 2}, {0, 5}, 1}), (Floats{1, 6, 1, 6}));
  EXPECT_EQ(read({{}, {}, 11}), (Floats{11}));
  EXPECT_EQ(read({{0, 3}, {3, 1}, 12}), Floats{});
}

TEST_F(OddFiles, BuffersLieWithWeightsOrWithConstants) {
  EXPECT_EQ(read({{2}, {1}}, "buffer"), (Floats{0, 1}));
  EXPECT_EQ(read({{2}, {1}}, "tensor_constant"), (Floats{0, 1}));
}

TEST_F(OddFiles, OtherDtypesKeepTheirBytes) {
  write(entries({{3}, {2}, 1, 13}));  // bfloat16: every second half of a float, the upper one
  const auto tensors = make_torch_export()->tensors(path_.string());
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  EXPECT_EQ(tensors->at("p_w").type(), (TensorType{DType::bfloat16, {3}}));
  const auto halves = tensors->at("p_w").as<std::uint16_t>();
  EXPECT_EQ(std::vector<std::uint16_t>(halves.begin(), halves.end()), (std::vector<std::uint16_t>{0, 0x3f80, 0x4000}));
}

TEST_F(OddFiles, OfTheMetaDeviceHoldNothing) { EXPECT_EQ(read({{100, 100}, {100, 1}, 0, 7, "meta"}), Floats{}); }

TEST_F(OddFiles, APlaceOutsideThePayloadIsRefused) {
  write(entries({{4, 4}, {4, 1}}));
  EXPECT_EQ(message(),
            "tensor 'w' needs 16 elements, and m/data/weights/bytes has 12; the file was cut short, or it was "
            "written wrong");
  const std::int64_t huge = std::int64_t{1} << 62;
  for (const Place& place : {Place{{2}, {1}, -1}, Place{{2}, {-1}, 3}, Place{{2}, {1, 1}}, Place{{5}, {huge}},
                             Place{{2}, {1}, std::numeric_limits<std::int64_t>::max()}}) {
    write(entries(place));
    EXPECT_EQ(message(), "tensor 'w' has strides or an offset that nothing can have");
  }
}

TEST_F(OddFiles, WhatIsNoPlainTensorIsRefused) {
  write(entries({{2}, {1}, 0, 7, "cpu", true}));
  EXPECT_EQ(message(), "tensor 'w' is a pickled object, which only Python reads; export plain tensors");
  auto other = entries({{2}, {1}});
  other["byteorder"] = "big";
  write(other);
  EXPECT_NE(message().find("byte order 'big'"), std::string::npos);
  auto retyped = entries({{2}, {1}});
  std::string& config = retyped["data/weights/model_weights_config.json"];
  config.replace(config.find("\"dtype\": 7"), 10, "\"dtype\": 5");
  write(retyped);
  EXPECT_EQ(message(), "tensor 'w' is stored with another type than the float32[2] of the graph");
  auto missing = entries({{2}, {1}});
  missing.erase("data/weights/bytes");
  write(missing);
  EXPECT_EQ(message(), "the archive has no m/data/weights/bytes");
}

TEST_F(OddFiles, ADamagedByteIsFoundByItsChecksum) {
  const auto tensors = make_torch_export()->tensors(kWeights);
  ASSERT_TRUE(tensors.ok());
  const auto bytes = tensors->at("p_inner_transformer_wpe_weight").bytes();
  std::stringstream whole;
  whole << std::ifstream(kWeights, std::ios::binary).rdbuf();
  std::string file = whole.str();
  const std::size_t at = file.find(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  ASSERT_NE(at, std::string::npos);
  file[at + 17] = static_cast<char>(file[at + 17] ^ 4);
  std::ofstream(path_, std::ios::binary) << file;
  EXPECT_EQ(message(), "cannot read gpt2_tiny_weights/data/weights/weight_1 from the archive: CRC error");
  std::ofstream(path_, std::ios::binary) << file.substr(0, file.size() / 2);
  EXPECT_EQ(message(), "this is not a zip archive, or it was cut short; write it with torch.export.save");
}

TEST_F(OddFiles, AFileThatIsMissingIsRefused) { EXPECT_EQ(message(), "there is no such file"); }

}  // namespace
}  // namespace meshwright::torch_export
