// trace:DIR as a kernel: it "scores" by handing out what was recorded, and refuses to speak of
// requests or tokens that it does not hold. Also the copying of rows from one trace to another.
#pragma once

#include <memory>
#include <string>

#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/kernel/uri.h"
#include "kcc/trace/reader.h"
#include "kcc/trace/writer.h"

namespace kcc {

Result<std::unique_ptr<Kernel>> OpenTraceKernel(const std::string& directory);

KernelScheme TraceScheme();

// Fails where the URI names no trace but looks like the address of a server.
Result<> CheckTraceUri(const KernelUri& uri);

// What a writer must be made with so that rows of `reader` can be copied to it as they are. All
// token files must store their logits alike.
Result<TraceWriter::Options> WriterOptionsFor(const TraceReader& reader);

}  // namespace kcc
