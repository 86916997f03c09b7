#include "target.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zip.h>

#include <cstdio>
#include <cstdlib>

#include "meshwright/log.h"
#include "meshwright/training_graph.h"

namespace meshwright::fuzz {

namespace {

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "fuzz: %s\n", why.c_str());
  std::abort();
}

}  // namespace

host::PluginHost& plugins() {
  static host::PluginHost opened = [] {
    set_log_sink([](LogLevel, std::string_view, std::string_view) {});
    Result<host::PluginHost> host = host::PluginHost::open({});
    if (!host) give_up(host.error().message);
    return std::move(*host);
  }();
  return opened;
}

void expect_refusal(const Error& error) {
  const bool fair = error.code == ErrorCode::bad_input || error.code == ErrorCode::infeasible;
  if (!fair) give_up("an input ends with code " + std::to_string(static_cast<int>(error.code)) + ": " + error.message);
  if (error.message.empty()) give_up("a refusal without a word");
}

const OpTable& ops() {
  static const std::unique_ptr<OpTable> kOps = [] {
    Result<std::unique_ptr<OpTable>> table = plugins().op_table();
    if (!table) give_up(table.error().message);
    return std::move(*table);
  }();
  return *kOps;
}

void exercise(Graph graph) {
  drop_dead_nodes(graph);
  if (Status status = validate(graph); !status)
    give_up("a graph that was read is not valid: " + status.error().message);
  for (const Node& node : graph.nodes) {
    const OpFamily* family = ops().find(node.op);
    if (family == nullptr) continue;
    const OpCall call = make_call(graph, node);
    const Result<Rule> rule = family->rule(call);
    if (!rule)
      expect_refusal(rule.error());
    else if (const Result<OpCost> cost = family->cost(call, *rule); !cost)
      expect_refusal(cost.error());
  }
  const Result<TrainingGraph> training = differentiate(graph, ops());
  if (!training) expect_refusal(training.error());
}

MemoryFile::MemoryFile(std::string_view bytes) : file_(::memfd_create("input", MFD_CLOEXEC)) {
  if (file_ < 0 || ::write(file_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    give_up("no memory for a file");
}

MemoryFile::~MemoryFile() { ::close(file_); }

std::string zipped_model(std::string_view json) {
  zip_error_t error;
  zip_source_t* archive = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_source_keep(archive);
  zip_t* zip = zip_open_from_source(archive, ZIP_TRUNCATE, &error);
  const zip_int64_t index =
      zip_file_add(zip, "m/models/model.json", zip_source_buffer(zip, json.data(), json.size(), 0), 0);
  zip_set_file_compression(zip, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  if (zip_close(zip) != 0) give_up("no archive can be made");
  zip_source_open(archive);
  zip_source_seek(archive, 0, SEEK_END);
  std::string bytes(static_cast<std::size_t>(zip_source_tell(archive)), '\0');
  zip_source_seek(archive, 0, SEEK_SET);
  zip_source_read(archive, bytes.data(), bytes.size());
  zip_source_close(archive);
  zip_source_free(archive);
  return bytes;
}

}  // namespace meshwright::fuzz
