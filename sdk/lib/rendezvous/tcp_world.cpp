#include "tcp_world.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "exchange.h"
#include "link.h"

namespace meshwright {

namespace {

constexpr std::size_t kAtOnce = std::size_t{8} << 20;  // bytes of a rank in one exchange: the hub holds all ranks'

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TcpWorld::TcpWorld(std::unique_ptr<Link> link) : link_(std::move(link)) {}

Result<std::unique_ptr<TcpWorld>> TcpWorld::join(const Launched& launched, Options options) {
  auto link = std::make_unique<Link>(launched, std::move(options));
  if (Status status = link->join(); !status) return status.error();
  return std::unique_ptr<TcpWorld>(new TcpWorld(std::move(link)));
}

TcpWorld::~TcpWorld() {
  if (std::uncaught_exceptions() > 0)
    end_all(internal_error("rank " + std::to_string(rank()) + ": out of memory, or a fault of our own"));
  link_->leave();
}

int TcpWorld::rank() const { return link_->launched().rank; }
int TcpWorld::size() const { return link_->launched().size; }

std::vector<std::string> TcpWorld::exchange(std::string_view name, std::string_view own) {
  auto given =
      parse_parts(link_->exchange({FrameKind::exchange, 0, 0, named(name, own)}), static_cast<std::size_t>(size()));
  if (!given) end_all(internal_error("rank " + std::to_string(rank()) + ": what came from rank 0 has another form"));
  return std::move(*given);
}

void TcpWorld::announce(std::string_view name) { link_->send({FrameKind::announced, 0, 0, named(name, "")}); }

void TcpWorld::broadcast(std::span<std::byte> bytes, int root) {
  while (!bytes.empty()) {
    const std::span<std::byte> now = bytes.first(std::min(bytes.size(), kAtOnce));
    const auto all = exchange("bytes", rank() == root ? as_text(now) : std::string_view());
    const std::string& here = all[static_cast<std::size_t>(root)];
    if (here.size() != now.size())
      end_all(internal_error("rank " + std::to_string(root) + " has a tensor of another size"));
    std::memcpy(now.data(), here.data(), now.size());
    bytes = bytes.subspan(now.size());
  }
}

void TcpWorld::share(std::span<const std::span<std::byte>> parts, int first) {
  const std::size_t own = static_cast<std::size_t>(rank() - first), bytes = parts[own].size();
  for (std::size_t at = 0; at < bytes; at += kAtOnce) {
    const std::size_t count = std::min(bytes - at, kAtOnce);
    const auto all = exchange("parts", as_text(parts[own].subspan(at, count)));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string& part = all[i + static_cast<std::size_t>(first)];
      if (part.size() != count || parts[i].size() != bytes)
        end_all(internal_error("rank " + std::to_string(i) + " has a part of another size"));
      if (i != own) std::memcpy(parts[i].data() + at, part.data(), count);
    }
  }
}

void TcpWorld::end_all(const Error& error) const {
  link_->send({FrameKind::failed, 0, static_cast<std::uint64_t>(error.code), error.message});
  link_->wait_for_end(error);
}

void TcpWorld::post(int to, std::uint64_t channel, std::string bytes) {
  if (bytes.size() > kMostBytes)
    end_all(bad_input("a message of " + std::to_string(bytes.size()) + " bytes is too long"));
  link_->send({FrameKind::letter, to, channel, std::move(bytes)});
}
std::optional<std::string> TcpWorld::take(int from, std::uint64_t channel) { return link_->take(from, channel); }
std::optional<Mail::Letter> TcpWorld::take(std::uint64_t channel) { return link_->take(channel); }

}  // namespace meshwright
