#include "server/takeover_socket.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fstream>

#include "sockets.hpp"
#include "temp_folder.hpp"

namespace mortise::test {
namespace {

using testing::HasSubstr;

class TakeoverSocketTest : public testing::Test {
 protected:
  TempFolder folder_;
  const std::string path_ = folder_.path() / "takeover";
};

TEST_F(TakeoverSocketTest, IsTheUsersAloneAndGoesWithItsServer) {
  {
    const TakeoverSocket socket(path_);
    struct stat file {};
    ASSERT_EQ(::lstat(path_.c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 0777, 0600u);
    const auto peer = connect_to_takeover_socket(path_);
    ASSERT_TRUE(peer);
    EXPECT_EQ(peer_of_this_user(peer->get()), ::getpid());
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(connect_to_takeover_socket(path_));
}

TEST_F(TakeoverSocketTest, OneThatAKilledServerLeftIsReplaced) {
  {
    TakeoverSocket killed(path_);
    killed.handed_over();  // the descriptor is closed, the file stays
  }
  ASSERT_TRUE(std::filesystem::exists(path_));
  EXPECT_FALSE(connect_to_takeover_socket(path_));
  const TakeoverSocket socket(path_);
  EXPECT_TRUE(connect_to_takeover_socket(path_));
}

TEST_F(TakeoverSocketTest, OneThatAServerListensAtIsNotReplaced) {
  const TakeoverSocket socket(path_);
  EXPECT_THAT(failure_of([&] { TakeoverSocket second(path_); }),
              HasSubstr("a server listens there; take over from it with --takeover, or give another path"));
  EXPECT_TRUE(connect_to_takeover_socket(path_));
}

TEST_F(TakeoverSocketTest, MoreThanMayWaitAreRefused) {
  const TakeoverSocket socket(path_);
  std::vector<FileDescriptor> waiting;
  const auto connect_all = [&] {
    for (int i = 0; i < 20; ++i) waiting.push_back(*connect_to_takeover_socket(path_));
  };
  EXPECT_THAT(failure_of(connect_all), HasSubstr("processes already wait to take over"));
  EXPECT_GE(waiting.size(), 8u);
}

TEST_F(TakeoverSocketTest, AFileInItsPlaceIsLeftAlone) {
  folder_.write("takeover", "notes");
  for (const auto& call : {std::function<void()>([&] { check_takeover_path(path_); }),
                           std::function<void()>([&] { TakeoverSocket socket(path_); }),
                           std::function<void()>([&] { connect_to_takeover_socket(path_); })}) {
    EXPECT_THAT(failure_of(call), HasSubstr("a file that is not a socket is there"));
  }
  EXPECT_EQ(std::filesystem::file_size(path_), 5u);
}

TEST_F(TakeoverSocketTest, AnotherProgramsSocketIsNamedSo) {
  const FileDescriptor stream(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, path_.size());
  ASSERT_EQ(::bind(stream.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(stream.get(), 1), 0);
  const auto connect = [&] { connect_to_takeover_socket(path_); };
  EXPECT_THAT(failure_of(connect), HasSubstr("another program's socket is there"));
  EXPECT_THAT(failure_of([&] { TakeoverSocket socket(path_); }), HasSubstr("another program's socket is there"));
}

TEST_F(TakeoverSocketTest, AnotherUsersSocketIsRefused) {
  const TakeoverSocket socket(path_);
  if (::lchown(path_.c_str(), 1, static_cast<gid_t>(-1)) != 0) GTEST_SKIP() << "only root gives files away";
  EXPECT_THAT(failure_of([&] { check_takeover_path(path_); }),
              HasSubstr("it belongs to user 1, but this process runs as"));
}

TEST_F(TakeoverSocketTest, APathThatCannotBeOneIsAnError) {
  EXPECT_THAT(failure_of([] { check_takeover_path("/tmp/" + std::string(200, 'x')); }),
              HasSubstr("the path of a Unix socket has 1 to 107 bytes; give a shorter one"));
  EXPECT_THAT(failure_of([] { check_takeover_path(""); }), HasSubstr("1 to 107 bytes"));
  EXPECT_THAT(failure_of([&] { TakeoverSocket socket(folder_.path() / "none" / "takeover"); }),
              HasSubstr("cannot listen there: No such file or directory"));
}

TEST_F(TakeoverSocketTest, TheFileGoesWithTheLastProcessThatHasIt) {
  auto old = std::make_unique<TakeoverSocket>(path_);
  {
    const TakeoverSocket next(path_, FileDescriptor(::dup(old->fd())));
    old->handed_over();
    old.reset();
    EXPECT_TRUE(connect_to_takeover_socket(path_));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(TakeoverSocketTest, ADescriptorThatDoesNotListenIsAnError) {
  const auto [one, other] = connected_sockets();
  EXPECT_THAT(failure_of([&, fd = one.get()] { check_takeover_socket(fd); }), HasSubstr("does not listen"));
}

}  // namespace
}  // namespace mortise::test
