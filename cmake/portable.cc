// What a new libstdc++ asks of glibc, and an older glibc lacks (cmake/portable.cmake).
//
// Since glibc 2.32 this variable says whether the process has one thread, so that shared_ptr may count without
// atomics. 0 means that there may be more, which is always right. Hidden, so that nobody else's code sees it.
extern "C" {
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}
