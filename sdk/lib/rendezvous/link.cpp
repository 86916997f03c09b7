#include "link.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "exchange.h"
#include "meshwright/log.h"

namespace meshwright {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds kRetry{100};
constexpr std::chrono::seconds kSaid{5};     // in which all have said why they end
constexpr std::chrono::seconds kEnding{15};  // in which the thread that watches ends the process

std::string who_am_i() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {};
  return "process " + std::to_string(::getpid()) + " on " + (host[0] == '\0' ? "an unnamed machine" : host.data());
}

}  // namespace

TcpWorld::Link::~Link() { stop_watching(); }

Status TcpWorld::Link::join() {
  if (launched_.rank == 0) {
    Result<std::unique_ptr<Hub>> hub = Hub::open(launched_.address, launched_.port, launched_.size, options_.arrival);
    if (!hub) return hub.error();
    hub_ = std::move(*hub);
  }
  for (const Clock::time_point last = Clock::now() + options_.arrival;;) {
    if (Status status = connect(last); !status) return status;
    watch();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_welcome_ || refused_ || why_lost_; });
    if (refused_) return *refused_;
    if (!why_lost_) return Done{};
    // It may have been that of a run before, which ends.
    const std::string why = *std::exchange(why_lost_, std::nullopt);
    lock.unlock();
    stop_watching();
    std::this_thread::sleep_for(kRetry);
    if (Clock::now() < last) continue;
    return plugin_failed("rank " + std::to_string(launched_.rank) + ": what answers at " + place() +
                         " is not rank 0 (" + why +
                         "); set MESHWRIGHT_PORT, alike on all ranks, to a port that is free on rank 0's machine");
  }
}

// Rank 0's machine may begin later, and its name be known only then.
Status TcpWorld::Link::connect(Clock::time_point last) {
  std::vector<std::string> addresses{launched_.address};
  // The hub is on this machine, whatever its address elsewhere; and what "localhost" is differs.
  if (launched_.rank == 0)
    addresses.insert(addresses.begin(), "127.0.0.1");
  else if (launched_.address == "localhost")
    addresses.emplace_back("127.0.0.1");
  std::string why;
  while (true) {
    for (const std::string& address : addresses) {
      why = try_to_connect(address, last);
      if (why.empty()) return Done{};
    }
    if (Clock::now() > last) break;
    std::this_thread::sleep_for(kRetry);
  }
  return plugin_failed("rank " + std::to_string(launched_.rank) + ": rank 0 did not come to " + place() + " within " +
                       std::to_string(options_.arrival.count()) + " s (" + why +
                       "); start all ranks, with the same MASTER_ADDR and port, or wait longer with --set "
                       "emit.cuda.arrival_seconds");
}

std::string TcpWorld::Link::try_to_connect(const std::string& address, Clock::time_point last) {
  boost::system::error_code error;
  tcp::resolver resolver(io_);
  const auto found = resolver.resolve(address, std::to_string(launched_.port), error);
  if (error) return "the name " + address + ": " + error.message();
  tcp::socket socket(io_);
  std::optional<boost::system::error_code> done;
  asio::async_connect(socket, found,
                      [&done](const boost::system::error_code& code, const tcp::endpoint&) { done = code; });
  io_.restart();
  io_.run_until(std::max(last, Clock::now() + kRetry));
  if (!done) {
    socket.close(error);
    io_.restart();
    io_.run();  // its handler
    return "no answer";
  }
  io_.restart();
  if (*done) return done->message();
  wire_ = std::make_shared<Wire>(std::move(socket));
  wire_->trust();
  return "";
}

void TcpWorld::Link::watch() {
  wire_->read([this](Frame frame) { hear(std::move(frame)); }, [this](const std::string& why) { lose(why); });
  wire_->write(Frame{FrameKind::hello, launched_.rank, static_cast<std::uint64_t>(launched_.size), who_am_i()});
  tick();
  thread_ = std::thread([this] { io_.run(); });
}

void TcpWorld::Link::stop_watching() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
  if (wire_) wire_->close();
  timer_.cancel();
  io_.restart();
}

void TcpWorld::Link::hear(Frame frame) {
  if (frame.kind == FrameKind::ended) return end({error_code_of(frame.number), frame.content});
  const std::lock_guard lock(mutex_);
  if (frame.kind == FrameKind::leave) {
    if (ended_) exit();
    has_left_ = true;
  }
  if (frame.kind == FrameKind::welcome) is_welcome_ = true;
  if (frame.kind == FrameKind::given) given_ = std::move(frame.content);
  if (frame.kind == FrameKind::letter) letters_[frame.number][frame.peer].push_back(std::move(frame.content));
  if (frame.kind == FrameKind::refused)
    refused_ = bad_input("rank " + std::to_string(launched_.rank) + " is refused: " + frame.content);
  changed_.notify_all();
}

void TcpWorld::Link::lose(const std::string& why) {
  if (ended_) exit();
  {
    const std::lock_guard lock(mutex_);
    if (has_left_ || refused_) return;
    if (!is_welcome_) {
      why_lost_ = why;
      changed_.notify_all();
      return;
    }
  }
  say(plugin_failed("rank 0 has gone: it ended, or its machine can't be reached (" + why + ")"));
  ended_ = plugin_failed("");
  exit();
}

void TcpWorld::Link::tick() {
  timer_.expires_after(kBeat);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    wire_->write(Frame{});
    if (ended_ && Clock::now() - ended_at_ > kSaid) exit();
    if (Clock::now() - wire_->heard_at() > kSilence) {
      const std::string silence = "nothing was heard for " + std::to_string(kSilence.count()) + " s";
      wire_->close();
      return lose(silence);
    }
    tick();
  });
}

void TcpWorld::Link::end(const Error& error) {
  if (ended_) return;
  say(error);
  ended_ = error;
  ended_at_ = Clock::now();
  wire_->write(Frame{FrameKind::bye, 0, 0, {}});
}

void TcpWorld::Link::say(const Error& error) const {
  log(LogLevel::error, options_.speaker,
      error.message + "; it ends all " + std::to_string(launched_.size) + " processes");
  std::fflush(stderr);
}

// Nothing is unwound: this process may be inside of any library's call.
void TcpWorld::Link::exit() const {
  if (hub_) hub_->wait_until_left();
  std::_Exit(static_cast<int>(ended_->code));
}

void TcpWorld::Link::send(Frame frame) const {
  asio::post(io_, [wire = wire_, frame = std::move(frame)] { wire->write(frame); });
}

std::string TcpWorld::Link::exchange(Frame frame) {
  send(std::move(frame));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return given_.has_value(); });
  return *std::exchange(given_, std::nullopt);
}

void TcpWorld::Link::wait_for_end(const Error& error) const {
  std::this_thread::sleep_for(kEnding);
  say(error);
  std::_Exit(static_cast<int>(error.code));
}

void TcpWorld::Link::leave() {
  send(Frame{FrameKind::bye, 0, 0, {}});
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_left_; });
}

std::optional<std::string> TcpWorld::Link::take(int from, std::uint64_t channel) {
  const std::lock_guard lock(mutex_);
  std::deque<std::string>& waiting = letters_[channel][from];
  if (waiting.empty()) return std::nullopt;
  std::string bytes = std::move(waiting.front());
  waiting.pop_front();
  return bytes;
}

std::optional<Mail::Letter> TcpWorld::Link::take(std::uint64_t channel) {
  const std::lock_guard lock(mutex_);
  for (auto& [from, waiting] : letters_[channel]) {
    if (waiting.empty()) continue;
    Mail::Letter letter{from, std::move(waiting.front())};
    waiting.pop_front();
    return letter;
  }
  return std::nullopt;
}

}  // namespace meshwright
