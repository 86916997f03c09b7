// `meshwright run --backend cuda` on its recording driver: whole steps are those of `reference`, free of races, and end
// with a call's name and text where it fails. No GPU has a part in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trained_on_gpus.h"

namespace meshwright::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class RunCuda : public Trains {
 protected:
  // With failures of calls.
  static Outcome run_failing(const std::string& plan, const std::string& failures, const std::string& options = "") {
    return run_command("timeout 60 " +
                       run_words(plan, std::string(kRecording) + "--steps 3 --set 'emit.cuda.failures=[" + failures +
                                           "]' " + options));
  }
  // One error, once, with the call's name and text.
  static void expect_failed(const std::string& plan, const std::string& entry, int call,
                            const std::string& options = "") {
    const Outcome failed = run_failing(plan, "\"" + entry + ":" + std::to_string(call) + ":2\"", options);
    EXPECT_EQ(failed.exit_code, 4) << entry << " " << call;
    EXPECT_EQ(failed.output, "") << entry;
    const std::string error = "meshwright: error: ";
    ASSERT_THAT(failed.errors, HasSubstr(error)) << entry << " " << call;
    EXPECT_THAT(failed.errors, HasSubstr(entry + ": the failure that was asked for (error 2)"));
    EXPECT_THAT(failed.errors.substr(failed.errors.find(error) + error.size()), Not(HasSubstr(error)));
  }
};

class RunCudaOnRanks : public RunCuda, public testing::WithParamInterface<Trained> {};

// In whichever order the streams run.
TEST_P(RunCudaOnRanks, IsWhatReferenceComputes) {
  const std::string plan = planned(GetParam().model, GetParam().options, "plan.json", GetParam().cluster);
  const json reference = said(run_command(run_words(plan, "--steps 3"))),
             recorded = said(run_command(run_words(plan, std::string(kRecording) + "--steps 3")));
  EXPECT_EQ(recorded["backend"], "cuda");
  EXPECT_EQ(recorded["ranks"], reference["ranks"]);
  ASSERT_EQ(losses(recorded).size(), 3U);
  expect_same(recorded, reference);
  const json otherwise =
      said(run_command(run_words(plan, std::string(kRecording) + "--steps 3 --set emit.cuda.seed=7")));
  EXPECT_EQ(losses(otherwise), losses(recorded));
}

// Where libraries are not wanted.
TEST_F(RunCuda, ComputesProductsWithoutALibraryToo) {
  for (const auto& [model, options] :
       {std::pair("gpt2_tiny", "--mesh 2x2 --set search.batch_axes=0"), std::pair("vgg_tiny", "--mesh 2x2")}) {
    const std::string plan = planned(model, options, "plan.json", "a100x4"),
                      fails = "--set 'emit.cuda.failures=[\"cublasLtCreate:1:2\", \"cudnnCreate:1:2\"]' ";
    const json by_kernels = said(
        run_command(run_words(plan, std::string(kRecording) + fails + "--steps 2 --set emit.cuda.products=kernels")));
    expect_near(losses(by_kernels), losses(said(run_command(run_words(plan, "--steps 2")))), 1e-5);
  }
}

TEST_F(RunCuda, CompilesNothingWhereThatIsAskedFor) {
  const std::string plan = planned("mlp_tiny", "--mesh 2x4"), fails = "\"nvrtcCompileProgram:1:6\"";
  EXPECT_EQ(run_failing(plan, fails).exit_code, 4);
  EXPECT_EQ(run_failing(plan, fails, "--set emit.cuda.chains=general").exit_code, 0);
}

// Where the plan says that steps are replayed as CUDA graphs: from the second one on they are.
TEST_F(RunCuda, ReplaysSteps) {
  const auto expect_same_steps = [this](const char* model, const std::string& options) {
    const std::string plain = planned(model, options, "plain.json"),
                      plan = planned(model, options + " --set train.cuda_graphs=true", "graphs.json");
    const json replayed = said(run_command(run_words(plan, std::string(kRecording) + "--steps 4")));
    expect_same(replayed, said(run_command(run_words(plan, "--steps 4"))));
    EXPECT_EQ(losses(replayed), losses(said(run_command(run_words(plain, std::string(kRecording) + "--steps 4")))));
    said(run_command(run_words(plan, std::string(kRecording) + "--steps 2 --save " + path("graphs.safetensors"))));
    const std::vector<double> all = losses(replayed),
                              rest = losses(
                                  said(run_command(run_words(plan, std::string(kRecording) + "--steps 2 --resume " +
                                                                       path("graphs.safetensors")))));
    EXPECT_EQ(rest, (std::vector<double>{all[2], all[3]}));
    EXPECT_THAT(run_failing(plan, "\"cudaGraphLaunch:3:2\"").errors,
                HasSubstr("cudaGraphLaunch: the failure that was asked for (error 2)"));
    EXPECT_EQ(run_failing(plain, "\"cudaGraphLaunch:1:2\"").exit_code, 0);
  };
  expect_same_steps("mlp_tiny",
                    "--mesh 2x4 --set search.zero=2 --set search.batch_axes=all --set train.microbatches=2");
  expect_same_steps("gpt2_tiny", "--mesh 2x4 --set search.zero=3 --set search.batch_axes=all");
  expect_same_steps("mlp_tiny", "--mesh 2x2 --set search.stages=2 --set train.microbatches=4");
  const std::string plan = planned("mlp_tiny", "--mesh 2x4 --set train.cuda_graphs=true");
  for (const char* entry : {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate",
                            "cudaGraphDestroy", "cudaGraphLaunch"})
    expect_failed(plan, entry, 1);
  const Outcome on_one =
      run_command(run_words(plan, std::string(kRecording) + "--steps 2 --set emit.cuda.loopback=true"));
  EXPECT_EQ(on_one.exit_code, 0);
  EXPECT_THAT(on_one.errors, HasSubstr("steps are no CUDA graphs here"));
}

// All ranks on one device.
TEST_P(RunCudaOnRanks, IsTheSameOnOneDevice) {
  const std::string plan = planned(GetParam().model, GetParam().options, "plan.json", GetParam().cluster);
  const json reference = said(run_command(run_words(plan, "--steps 2"))),
             looped = said(
                 run_command(run_words(plan, std::string(kRecording) + "--steps 2 --set emit.cuda.loopback=true")));
  EXPECT_EQ(looped["ranks"], reference["ranks"]);
  expect_same(looped, reference);
}

// The same on a GPU, as many ranks as it may be; where there is none it is skipped.
TEST_P(RunCudaOnRanks, IsTheSameOnAGpu) {
  const std::string plan = planned(GetParam().model, GetParam().options, "plan.json", GetParam().cluster);
  const Outcome outcome = run_command(run_words(plan, "--backend cuda --steps 3 --set emit.cuda.loopback=true"));
  if (outcome.exit_code == 4 && outcome.errors.find("no device: ") != std::string::npos) GTEST_SKIP() << outcome.errors;
  const json reference = said(run_command(run_words(plan, "--steps 3"))), on_gpu = said(outcome);
  expect_same(on_gpu, reference);
}

// In half precision, by the plan's own types: bytes are those that it predicts. `peak_bytes` of a simulation is of the
// same plan.
class RunCudaInHalf : public RunCuda, public testing::WithParamInterface<Trained> {
 protected:
  std::string planned_in_half() const {
    return planned(GetParam().model, std::string(GetParam().options) + " --set train.param_dtype=bf16", "half.json",
                   GetParam().cluster);
  }
  // Losses have 8 bits, and steps differ by what gradients were rounded to.
  static void expect_as_planned(const json& made, const std::string& plan) {
    const json predicted = said(run_program("simulate " + plan + " --format json"));
    expect_near(losses(made), losses(said(run_command(run_words(plan, "--steps 3")))), 0.02);
    EXPECT_EQ(made["bytes_sent"], predicted["bytes_sent"]);
    EXPECT_EQ(made["peak_bytes"], predicted["peak_bytes"]);
  }
};

TEST_P(RunCudaInHalf, IsNearWhatReferenceComputes) {
  const std::string plan = planned_in_half();
  const Outcome outcome = run_command(run_words(plan, std::string(kRecording) + "--steps 3"));
  EXPECT_THAT(outcome.errors, Not(HasSubstr("here it is run in float32")));
  expect_as_planned(said(outcome), plan);
}

TEST_P(RunCudaInHalf, IsSoOnAGpu) {
  const std::string plan = planned_in_half();
  const Outcome outcome = run_command(run_words(plan, "--backend cuda --steps 3 --set emit.cuda.loopback=true"));
  if (outcome.exit_code == 4 && outcome.errors.find("no device: ") != std::string::npos) GTEST_SKIP() << outcome.errors;
  expect_as_planned(said(outcome), plan);
}

// What fails there says whose it was.
TEST_F(RunCuda, GivesMaskedAttentionToTheLibrary) {
  const std::string plan = planned("llama_tiny", "--mesh 1 --set train.param_dtype=bf16", "plan.json", "a100x1");
  EXPECT_THAT(run_failing(plan, "\"cudnnBackendExecute:1:2\"").errors,
              ContainsRegex("\\(aten.scaled_dot_product_attention [^)]*\\): masked attention of 32 batches of 8 "
                            "queries and 8 keys of 8: cudnnBackendExecute: "));
  EXPECT_THAT(run_failing(plan, "\"cudnnBackendExecute:4:2\"").errors,
              ContainsRegex("\\(meshwright.attention_backward [^)]*\\): the gradients of masked attention of 32 "));
}

INSTANTIATE_TEST_SUITE_P(
    Models, RunCudaInHalf,
    testing::Values(
        Trained{"mlp1", "mlp_tiny", "a100x1", "--mesh 1"},
        Trained{"mlp8_momentum", "mlp_tiny", "slow8", "--mesh 2x4 --set train.optimizer=momentum"},
        Trained{"mlp_zero1", "mlp_tiny", "slow8",
                "--mesh 2x4 --set search.zero=1 --set search.batch_axes=all --set train.microbatches=2"},
        Trained{"mlp_zero2", "mlp_tiny", "slow8",
                "--mesh 2x4 --set search.zero=2 --set search.batch_axes=all --set train.microbatches=2 --set "
                "train.reduce_dtype=fp32"},
        Trained{"mlp_sgd", "mlp_tiny", "slow8",
                "--mesh 8 --set train.optimizer=sgd --set train.microbatches=4 --set train.master_dtype=bf16"},
        Trained{"gpt1", "gpt2_tiny", "a100x1", "--mesh 1"},
        Trained{"gpt4", "gpt2_tiny", "a100x4", "--mesh 2x2 --set search.batch_axes=0"},
        Trained{"gpt8", "gpt2_tiny", "slow8", "--mesh 2x4"},
        Trained{"gpt8_zero3", "gpt2_tiny", "slow8", "--mesh 2x4 --set search.zero=3 --set search.batch_axes=all"},
        Trained{"gpt8_microbatches", "gpt2_deep_tiny", "slow8", "--mesh 2x4 --set train.microbatches=4"},
        Trained{"llama8", "llama_tiny", "slow8", "--mesh 2x4"}, Trained{"vgg4", "vgg_tiny", "a100x4", "--mesh 2x2"},
        Trained{"densenet1", "densenet_tiny", "a100x1", "--mesh 1 --set train.optimizer=sgd"},
        Trained{"vit2", "vit_tiny", "a100x2", "--mesh 2"}, Trained{"clip2", "clip_tiny", "a100x2", "--mesh 2"},
        Trained{"swin1", "swin_tiny", "a100x1", "--mesh 1"}, Trained{"t5_4", "t5_tiny", "a100x4", "--mesh 2x2"},
        Trained{"unet4", "unet_tiny", "a100x4", "--mesh 2x2"}, Trained{"qwen2", "qwen_moe_tiny", "a100x2", "--mesh 2"},
        Trained{"bert4", "bert_tiny", "a100x4", "--mesh 2x2 --set search.batch_axes=0"},
        Trained{"recurrent4", "recurrent_tiny", "a100x4", "--mesh 2x2 --set search.batch_axes=0"},
        Trained{"regularized8", "regularized_tiny", "slow8", "--mesh 2x4"}),
    [](const auto& info) { return std::string(info.param.name); });

// As `reference` does it.
TEST_F(RunCuda, ComputesInFloat32WhereThatIsAskedFor) {
  const std::string plan = planned("mlp_tiny", "--mesh 2x4 --set train.param_dtype=bf16");
  const Outcome outcome =
      run_command(run_words(plan, std::string(kRecording) + "--steps 3 --set emit.cuda.precision=float32"));
  EXPECT_THAT(outcome.errors, HasSubstr("here it is run in float32"));
  const json reference = said(run_command(run_words(plan, "--steps 3"))), made = said(outcome);
  expect_same(made, reference);
}

// Masters and moments, wherever their shards lie: training goes on as if it had not stopped, to the last bit.
TEST_F(RunCuda, SavesTheMastersOfHalfPrecision) {
  const std::string plan =
      planned("mlp_tiny", "--mesh 2x4 --set train.param_dtype=bf16 --set search.zero=1 --set search.batch_axes=all");
  const std::vector<double> all = losses(said(run_command(run_words(plan, std::string(kRecording) + "--steps 4"))));
  said(run_command(run_words(plan, std::string(kRecording) + "--steps 2 --save " + path("half.safetensors"))));
  EXPECT_EQ(losses(said(run_command(
                run_words(plan, std::string(kRecording) + "--steps 2 --resume " + path("half.safetensors"))))),
            (std::vector<double>{all[2], all[3]}));
  const json in_float = said(run_command(run_words(plan, "--steps 2 --resume " + path("half.safetensors"))));
  expect_near(losses(in_float), {all[2], all[3]}, 0.02);
}

INSTANTIATE_TEST_SUITE_P(
    Models, RunCudaOnRanks,
    testing::Values(
        Trained{"mlp1", "mlp_tiny", "a100x1", "--mesh 1"},
        Trained{"mlp2", "mlp_tiny", "a100x2", "--mesh 2 --set search.batch_axes=all"},
        Trained{"mlp4", "mlp_tiny", "a100x4", "--mesh 2x2 --set search.batch_axes=0"},
        Trained{"mlp8_momentum", "mlp_tiny", "slow8", "--mesh 2x4 --set train.optimizer=momentum"},
        Trained{"mlp_zero1", "mlp_tiny", "slow8",
                "--mesh 2x4 --set search.zero=1 --set search.batch_axes=all --set train.microbatches=2"},
        Trained{"mlp_zero2", "mlp_tiny", "slow8",
                "--mesh 2x4 --set search.zero=2 --set search.batch_axes=all --set train.microbatches=2"},
        Trained{"mlp_sgd", "mlp_tiny", "slow8", "--mesh 8 --set train.optimizer=sgd --set train.microbatches=4"},
        Trained{"gpt1", "gpt2_tiny", "a100x1", "--mesh 1"},
        Trained{"gpt2", "gpt2_tiny", "a100x2", "--mesh 2 --set search.batch_axes=all"},
        Trained{"gpt4", "gpt2_tiny", "a100x4", "--mesh 2x2 --set search.batch_axes=0"},
        Trained{"gpt4_zero3", "gpt2_tiny", "a100x4", "--mesh 4 --set search.zero=3 --set search.batch_axes=all"},
        Trained{"gpt8", "gpt2_tiny", "slow8", "--mesh 2x4"},
        Trained{"gpt8_zero3", "gpt2_tiny", "slow8", "--mesh 2x4 --set search.zero=3 --set search.batch_axes=all"},
        Trained{"llama8", "llama_tiny", "slow8", "--mesh 2x4"},
        Trained{"stages2", "gpt2_deep_tiny", "slow8", "--mesh 2x2 --set search.stages=2 --set train.microbatches=4"},
        Trained{"stages4", "gpt2_deep_tiny", "slow8",
                "--mesh 2 --set search.stages=4 --set search.schedule=zb_h1 --set train.microbatches=8"},
        Trained{"chunks", "gpt2_deep_tiny", "slow8",
                "--mesh 2x2 --set search.stages=2 --set search.chunks=2 --set search.schedule=interleaved --set "
                "train.microbatches=4"},
        Trained{"chunks_v", "gpt2_deep_tiny", "slow8",
                "--mesh 2x2 --set search.stages=2 --set search.chunks=2 --set search.schedule=zb_v --set "
                "train.microbatches=4"},
        // The second and the third stage have what they hand over on the same devices, in other layouts.
        Trained{"chunks_in_other_layouts", "t5_tiny", "slow8",
                "--mesh 4 --set search.stages=2 --set search.chunks=2 --set search.schedule=zb_v --set "
                "train.microbatches=4"},
        Trained{"vgg1", "vgg_tiny", "a100x1", "--mesh 1"}, Trained{"vgg4", "vgg_tiny", "a100x4", "--mesh 2x2"},
        Trained{"densenet1", "densenet_tiny", "a100x1", "--mesh 1 --set train.optimizer=sgd"},
        Trained{"densenet4", "densenet_tiny", "a100x4",
                "--mesh 2x2 --set search.batch_axes=0 --set train.optimizer=sgd"},
        Trained{"vit2", "vit_tiny", "a100x2", "--mesh 2"}, Trained{"clip2", "clip_tiny", "a100x2", "--mesh 2"},
        Trained{"swin1", "swin_tiny", "a100x1", "--mesh 1"}, Trained{"t5_4", "t5_tiny", "a100x4", "--mesh 2x2"},
        Trained{"unet4", "unet_tiny", "a100x4", "--mesh 2x2"}, Trained{"qwen2", "qwen_moe_tiny", "a100x2", "--mesh 2"},
        Trained{"bert4", "bert_tiny", "a100x4", "--mesh 2x2 --set search.batch_axes=0"},
        // Tokens travel to their experts.
        Trained{"experts8", "mixtral_tiny", "slow8_far", "--set inter.manual.ep=8 --set model.batch=8"},
        Trained{"experts2x4", "qwen_moe_tiny", "slow8_far", "--set inter.manual.ep=4 --set model.batch=8"},
        Trained{"recurrent1", "recurrent_tiny", "a100x1", "--mesh 1"},
        Trained{"recurrent4", "recurrent_tiny", "a100x4", "--mesh 2x2 --set search.batch_axes=all"},
        Trained{"regularized1", "regularized_tiny", "a100x1", "--mesh 1"},
        Trained{"regularized4", "regularized_tiny", "a100x4", "--mesh 2x2 --set search.batch_axes=0"},
        Trained{"regularized8", "regularized_tiny", "slow8", "--mesh 2x4"},
        Trained{"gpt8_microbatches", "gpt2_deep_tiny", "slow8", "--mesh 2x4 --set train.microbatches=4"}),
    [](const auto& info) { return std::string(info.param.name); });

// Each wait of a rank for an event, left out: the proof finds what it was for, unless another one says the same.
TEST_F(RunCuda, FindsWaitsThatAreMissing) {
  const auto expect_a_third_of = [this](int waits, const std::string& plan) {
    int found = 0;
    for (int wait = 1; wait <= waits; ++wait) {
      const Outcome outcome = run_command(
          run_words(plan, std::string(kRecording) + "--steps 2 --set emit.cuda.omitted_wait=" + std::to_string(wait)));
      if (outcome.exit_code == 0) continue;
      ++found;
      EXPECT_THAT(outcome.errors, HasSubstr("touch the same memory, and neither waits for the other"));
    }
    EXPECT_GE(found, waits / 3);
  };
  expect_a_third_of(24, planned("mlp_tiny", "--mesh 2x4"));
  expect_a_third_of(24, planned("mlp_tiny", "--mesh 2x4 --set train.cuda_graphs=true"));
  expect_a_third_of(12, planned("mlp_tiny", "--mesh 2x2 --set search.stages=2 --set train.microbatches=4"));
}

// What docs/gpu.md says that the recording driver has called, by whole runs and one that fails.
TEST_F(RunCuda, CallsWhatTheTableSays) {
  const std::string plan = planned("mlp_tiny", "--mesh 2x4 --set train.cuda_graphs=true"),
                    table = "python3 " SOURCE_FOLDER "/tools/write_gpu_table.py " SOURCE_FOLDER "/docs/gpu.md --check ";
  const auto called_in = [](const std::string& file) { return "--set emit.cuda.called=" + file + " "; };
  said(run_command(run_words(plan, kRecording + called_in(path("run.json")) + "--steps 2")));
  run_failing(plan, "\"ncclAllGather:9:5\"", called_in(path("failed.json")));
  said(run_command(run_words(planned("vgg_tiny", "--mesh 2x2", "convolutions.json", "a100x4"),
                             kRecording + called_in(path("convolutions_run.json")))));
  const Outcome checked =
      run_command(table + path("run.json") + " " + path("failed.json") + " " + path("convolutions_run.json"));
  EXPECT_EQ(checked.exit_code, 0) << checked.errors;
  const Outcome without_end = run_command(table + path("run.json"));
  EXPECT_EQ(without_end.exit_code, 1);
  EXPECT_THAT(without_end.errors, HasSubstr("| `ncclCommAbort` | recorded |"));
  EXPECT_THAT(run_command(run_words(plan, kRecording + called_in(path("no/run.json")))).errors,
              HasSubstr("what was called can't be written to "));
}

// Within a minute. Of calls before the first step, in it, and of the first rank's and a later one's.
TEST_F(RunCuda, EndsWithTheNameOfTheCallThatFailed) {
  const std::string plan = planned("mlp_tiny", "--mesh 2x4");
  for (const char* entry : {"cudaGetDeviceCount",
                            "cudaSetDevice",
                            "cudaMalloc",
                            "cudaStreamCreateWithFlags",
                            "cudaStreamQuery",
                            "cudaEventCreateWithFlags",
                            "cudaEventRecord",
                            "cudaStreamWaitEvent",
                            "cudaMemcpyAsync",
                            "cudaMemsetAsync",
                            "cuModuleLoadData",
                            "cuModuleGetFunction",
                            "cuLaunchKernel",
                            "ncclGetUniqueId",
                            "ncclCommInitRank",
                            "ncclCommGetAsyncError",
                            "ncclGroupStart",
                            "ncclGroupEnd",
                            "ncclAllReduce",
                            "ncclAllGather",
                            "ncclReduceScatter",
                            "ncclSend",
                            "ncclRecv",
                            "cublasLtCreate",
                            "cublasLtMatmulDescCreate",
                            "cublasLtMatmulDescSetAttribute",
                            "cublasLtMatrixLayoutCreate",
                            "cublasLtMatrixLayoutSetAttribute",
                            "cublasLtMatmulPreferenceCreate",
                            "cublasLtMatmulPreferenceDestroy",
                            "cublasLtMatmulPreferenceSetAttribute",
                            "cublasLtMatmulAlgoGetHeuristic",
                            "cublasLtMatmul",
                            "cudaDeviceGetAttribute",
                            "nvrtcCreateProgram",
                            "nvrtcCompileProgram",
                            "nvrtcGetCUBINSize",
                            "nvrtcGetCUBIN",
                            "nvrtcDestroyProgram"}) {
    expect_failed(plan, entry, 1);
  }
  const std::string convolutions = planned("vgg_tiny", "--mesh 2x2", "convolutions.json", "a100x4");
  for (const char* entry :
       {"cudnnCreate", "cudnnSetStream", "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
        "cudnnBackendFinalize", "cudnnBackendGetAttribute", "cudnnBackendExecute", "cudnnBackendDestroyDescriptor"})
    expect_failed(convolutions, entry, 1);
  for (const char* entry :
       {"cudaSetDevice", "cudaStreamQuery", "cudaEventCreateWithFlags", "cudaEventRecord", "cudaStreamWaitEvent",
        "cudaMemcpyAsync", "cuModuleGetFunction", "cuLaunchKernel", "ncclCommInitRank", "ncclGroupStart",
        "ncclGroupEnd", "ncclAllGather", "ncclReduceScatter", "ncclSend", "ncclRecv", "cublasLtMatmul"}) {
    expect_failed(plan, entry, 40);
  }
  const Outcome in_step = run_failing(plan, "\"ncclSend:40:3\"");
  EXPECT_THAT(in_step.errors, HasSubstr("rank "));
  EXPECT_THAT(in_step.errors, HasSubstr("instruction "));
  const Outcome in_stage = run_failing(
      planned("mlp_tiny", "--mesh 2x2 --set search.stages=2 --set train.microbatches=4"), "\"ncclSend:3:3\"");
  EXPECT_EQ(in_stage.exit_code, 4);
  // Which rank's send is the third one, ranks decide among themselves.
  EXPECT_THAT(in_stage.errors,
              ContainsRegex("stage [01], rank [0-3], instruction [0-9]+ \\(send, microbatch [0-3]\\): "));
  EXPECT_THAT(in_stage.errors, HasSubstr("ncclSend: the failure that was asked for (error 3)"));
}

// A GPU can't refuse an index while it computes: the run ends with the step.
TEST_F(RunCuda, SaysThatAnIndexIsOutside) {
  const std::string plan = planned("outside_tiny", "--mesh 2x2 --set search.batch_axes=all", "plan.json", "a100x4");
  for (const char* options : {"", "--set emit.cuda.loopback=true"}) {
    const Outcome outcome = run_command(run_words(plan, std::string(kRecording) + "--steps 2 " + options));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.output, "");
    EXPECT_THAT(outcome.errors,
                ContainsRegex("rank [0-3]: instruction [0-9]+ \\(aten.embedding 'embedding'\\): an index, "
                              "or a label, is outside of what it names"));
  }
}

// Nor can it refuse rows.
TEST_F(RunCuda, SaysThatExpertsHaveNoRoom) {
  const std::string plan =
      planned("mixtral_tiny", "--set inter.manual.ep=8 --set model.batch=8 --set ops.experts.capacity_factor=0.5",
              "plan.json", "slow8_far");
  const Outcome outcome = run_command(run_words(plan, kRecording));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("more tokens chose the experts of one rank than its buffer has room for"));
  EXPECT_EQ(run_command(run_words(plan, "")).exit_code, 2);
}

// A call that never returns, of one rank, and the others wait for it.
TEST_F(RunCuda, EndsWhereACallHangs) {
  const std::string plan = planned("mlp_tiny", "--mesh 2x2 --set search.batch_axes=all", "plan.json", "a100x4");
  const auto hung = [&](const std::string& entry) {
    const Outcome outcome = run_failing(plan, "\"" + entry + ":hang\"", "--set emit.cuda.hang_seconds=2");
    EXPECT_EQ(outcome.exit_code, 4) << entry;
    EXPECT_THAT(outcome.errors, HasSubstr("nothing has come of this for 2 s, the limit that emit.cuda.hang_seconds "
                                          "sets: "));
    return outcome.errors;
  };
  EXPECT_THAT(hung("ncclCommInitRank:3"), HasSubstr("meet the others of a communicator of the ranks "));
  const std::string in_step = hung("cublasLtMatmul:9");
  EXPECT_THAT(in_step, ContainsRegex("rank [0-3] is at instruction [0-9]+ \\("));
  EXPECT_THAT(in_step, ContainsRegex("rank [0-3] waits for what it asked of its GPU"));
  EXPECT_THAT(hung("cudaStreamQuery:1"), ContainsRegex("rank [0-3] waits for copies to or from its GPU"));
  EXPECT_EQ(run_command(run_words(plan, std::string(kRecording) + "--set emit.cuda.hang_seconds=-1")).exit_code, 2);
}

// Ranks that meet on one device too, wherever the others are.
TEST_F(RunCuda, EndsWithTheNameOfTheCallThatFailedOnOneDevice) {
  const std::string plan = planned("mlp_tiny", "--mesh 2x4");
  for (const char* entry : {"cudaGetDeviceCount", "cudaSetDevice", "cudaMalloc", "cudaStreamCreateWithFlags",
                            "cudaStreamQuery", "cudaEventCreateWithFlags", "cudaEventRecord", "cudaStreamWaitEvent",
                            "cudaMemcpyAsync", "cuModuleLoadData", "cuLaunchKernel"}) {
    expect_failed(plan, entry, 1, "--set emit.cuda.loopback=true");
  }
  for (const char* entry : {"cudaEventRecord", "cudaStreamWaitEvent", "cudaMemcpyAsync", "cuLaunchKernel"}) {
    for (const int call : {40, 100}) expect_failed(plan, entry, call, "--set emit.cuda.loopback=true");
  }
}

// The losses are there already, or another error is.
TEST_F(RunCuda, WarnsOfWhatFailsAtTheEnd) {
  const std::string plan = planned("mlp_tiny", "--mesh 2x4 --set train.cuda_graphs=true");
  for (const std::string entry :
       {"cudaFree", "cudaStreamDestroy", "cudaEventDestroy", "cudaGraphExecDestroy", "ncclCommDestroy",
        "cublasLtMatrixLayoutDestroy", "cublasLtMatmulDescDestroy", "cublasLtDestroy"}) {
    const Outcome outcome = run_failing(plan, "\"" + entry + ":3:2\"");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(entry + ": the failure that was asked for (error 2)"));
  }
  const Outcome aborted = run_failing(plan, "\"ncclAllGather:9:5\", \"ncclCommAbort:2:6\"");
  EXPECT_EQ(aborted.exit_code, 4);
  EXPECT_THAT(aborted.errors, HasSubstr("ncclAllGather: the failure that was asked for (error 5)"));
  EXPECT_THAT(aborted.errors, HasSubstr("ncclCommAbort: the failure that was asked for (error 6)"));
}

// What there is too little of, and what would help.
TEST_F(RunCuda, SaysHowMuchMemoryARankNeeds) {
  const Outcome outcome = run_failing(planned("mlp_tiny", "--mesh 2x4"), "\"cudaMalloc:4:2\"");
  EXPECT_THAT(outcome.errors, HasSubstr("rank 3 needs "));
  EXPECT_THAT(outcome.errors, HasSubstr("most is held at instruction "));
  EXPECT_THAT(outcome.errors, HasSubstr("; the largest tensor is '"));
  EXPECT_THAT(outcome.errors, HasSubstr(" for the optimizer, "));
  EXPECT_THAT(outcome.errors, HasSubstr("search.memory_budget"));
}

TEST_F(RunCuda, SavesForOtherBackends) {
  const std::string plan = planned("mlp_tiny", "--mesh 2x4 --set search.zero=1 --set search.batch_axes=all");
  const std::vector<double> all = losses(said(run_command(run_words(plan, "--steps 4"))));
  said(run_command(run_words(plan, std::string(kRecording) + "--steps 2 --save " + path("recorded.safetensors"))));
  expect_near(losses(said(run_command(run_words(plan, "--steps 2 --resume " + path("recorded.safetensors"))))),
              {all[2], all[3]}, 1e-5);
  said(run_command(run_words(plan, "--steps 2 --save " + path("threads.safetensors"))));
  expect_near(losses(said(run_command(
                  run_words(plan, std::string(kRecording) + "--steps 2 --resume " + path("threads.safetensors"))))),
              {all[2], all[3]}, 1e-5);
}

TEST_F(RunCuda, RefusesWhatItCanNotRun) {
  const auto expect_refused = [](const std::string& command, const std::string& why) {
    const Outcome refused = run_command(command);
    EXPECT_EQ(refused.exit_code, 2) << refused.errors;
    EXPECT_THAT(refused.errors, HasSubstr(why));
    EXPECT_EQ(refused.output, "");
  };
  const std::string spectral = planned("spectral_tiny", "--mesh 1", "plan.json", "a100x1");
  expect_refused(run_words(spectral, kRecording),
                 "cuda has no kernel for aten.fft_fft; run the plan with --backend reference or mpi");
  expect_refused(run_words(spectral, "--backend cuda --set emit.cuda.driver=other"),
                 "it is \"nvidia\" or \"recording\"");
  expect_refused(run_words(spectral, "--backend cuda --set emit.cuda.products=none"),
                 "it is \"library\" or \"kernels\"");
  expect_refused(run_words(spectral, "--backend cuda --set emit.cuda.chains=none"),
                 "it is \"compiled\" or \"general\"");
  expect_refused(run_words(spectral, "--backend cuda --set emit.cuda.precision=half"), "it is \"plan\" or \"float32\"");
  expect_refused(run_words(spectral, "--backend cuda --set 'emit.cuda.failures=[\"cudaNothing:1:2\"]'"),
                 "each is ENTRY:CALL:CODE");
}

// Without CUDA's libraries, without a driver, or with all devices hidden.
TEST_F(RunCuda, SaysThatThereIsNoDevice) {
  const Outcome outcome = run_command(
      "CUDA_VISIBLE_DEVICES= " + run_words(planned("mlp_tiny", "--mesh 1", "plan.json", "a100x1"), "--backend cuda"));
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.errors, HasSubstr("backend 'cuda': no device: "));
  EXPECT_EQ(outcome.output, "");
}

}  // namespace
}  // namespace meshwright::test
