// What the system says of a connection's other side, by which staleness and leaving are told.
#include "kcc/plane/beast_wire.h"

#include <gtest/gtest.h>

#include <boost/asio/write.hpp>
#include <string>

namespace kcc::plane {
namespace {

struct Ends {
  asio::io_context io{1};
  Wire mine{Socket(io)};
  Socket other{io};

  Ends() {
    Acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    mine.socket().connect(acceptor.local_endpoint());
    acceptor.accept(other);
  }
  std::string Take(size_t bytes) {
    std::string text(bytes, '\0');
    text.resize(other.read_some(asio::buffer(text)));
    return text;
  }
  ErrorCodeOf ReadEnd() {
    char byte = 0;
    ErrorCodeOf failed;
    mine.socket().read_some(asio::buffer(&byte, 1), failed);
    return failed;
  }
};

const std::string kRequest(500, 'x');

TEST(Wire, ARequestToAnEndThatHadClosedIsNotAcknowledged) {
  for (const bool whole : {false, true}) {
    Ends ends;
    if (whole) {
      ends.other.close();
    } else {
      ends.other.shutdown(Socket::shutdown_both);
    }
    EXPECT_TRUE(ends.mine.HasEnded());
    bool closed = true;
    EXPECT_EQ(ends.mine.TrySend(kRequest, &closed), kRequest.size());
    EXPECT_FALSE(closed) << "that end answers it with a reset";
    EXPECT_EQ(ends.mine.Unacknowledged(), kRequest.size());
    EXPECT_EQ(ends.ReadEnd(), asio::error::eof);
    EXPECT_EQ(ends.mine.Unacknowledged(), kRequest.size());
    EXPECT_EQ(ends.mine.TrySend(kRequest, &closed), 0u);
    EXPECT_TRUE(closed);
  }
}

TEST(Wire, ARequestThatTheOtherEndTookBeforeItClosedIsAcknowledged) {
  Ends ends;
  EXPECT_EQ(ends.mine.TrySend(kRequest), kRequest.size());
  EXPECT_EQ(ends.Take(1000), kRequest);
  ends.other.close();
  EXPECT_EQ(ends.ReadEnd(), asio::error::eof);
  EXPECT_EQ(ends.mine.Unacknowledged(), 0u);
}

TEST(Wire, AnEndThatClosesWithARequestUnreadResets) {
  Ends ends;
  EXPECT_EQ(ends.mine.TrySend(kRequest), kRequest.size());
  EXPECT_EQ(ends.Take(100).size(), 100u);
  ends.other.close();
  EXPECT_EQ(ends.ReadEnd(), asio::error::connection_reset);
}

TEST(Wire, AnEndBehindUnreadBytesIsKnown) {
  Ends ends;
  asio::write(ends.other, asio::buffer(kRequest));
  EXPECT_FALSE(ends.mine.HasEnded());
  ends.other.shutdown(Socket::shutdown_send);
  EXPECT_TRUE(ends.mine.HasEnded());
  EXPECT_FALSE(ends.mine.IsSilent());
}

}  // namespace
}  // namespace kcc::plane
