#include <memory>
#include <utility>

#include "device/device.h"
#include "host/host_stream.h"

namespace orbitkv {
namespace {

class Host : public Device {
 public:
  std::unique_ptr<Stream> OpenStream(StreamContext context, const StreamOptions&) override {
    return std::make_unique<HostStream>(std::move(context));
  }
  std::unique_ptr<Event> CreateEvent() override { return std::make_unique<HostEvent>(); }
};

}  // namespace

Device& HostDevice() {
  static Device& device = *std::make_unique<Host>().release();  // used until the process ends
  return device;
}

}  // namespace orbitkv
