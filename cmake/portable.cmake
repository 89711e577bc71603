# KCC_PORTABLE: the program and libkcc.so need no library at run time but glibc's own, from 2.31 on, and the unwinder
# that comes with it (libgcc_s). Everything else is linked into them from build/dist-libs (tools/dist_libs.sh), the
# C++ runtime too.
#
# The packages are found as ever, so that sources are compiled as in any other build and find what the compiler's
# cache has; only what is linked is another file. Then libraries and headers must be of one version, which
# tools/dist_libs.sh sees to.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64")
  set(portable ${PROJECT_SOURCE_DIR}/build/dist-libs/aarch64)
  set(libc_folder ${portable}/libc/usr/lib/aarch64-linux-gnu)
else()
  set(portable ${PROJECT_SOURCE_DIR}/build/dist-libs/x86_64)
  set(libc_folder ${portable}/libc/usr/lib/x86_64-linux-gnu)
endif()
if(NOT EXISTS ${portable}/versions)
  message(FATAL_ERROR "KCC_PORTABLE needs the libraries of ${portable}; run tools/dist_libs.sh first, or make dist.")
endif()

set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
set(OPENSSL_USE_STATIC_LIBS ON)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)
find_package(simdjson REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(hwy REQUIRED)
find_package(SQLite3 REQUIRED)

# kcc_link_statically(TARGET FILE): whatever configuration is asked for, the file is linked.
function(kcc_link_statically target file)
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  if(configurations)
    foreach(configuration IN LISTS configurations)
      set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} ${portable}/lib/${file})
    endforeach()
  endif()
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${portable}/lib/${file})
endfunction()
kcc_link_statically(OpenSSL::Crypto libcrypto.a)
kcc_link_statically(OpenSSL::SSL libssl.a)
kcc_link_statically(CURL::libcurl libcurl.a)
kcc_link_statically(simdjson::simdjson libsimdjson.a)
kcc_link_statically(yaml-cpp libyaml-cpp.a)
kcc_link_statically(hwy::hwy libhwy.a)
kcc_link_statically(SQLite::SQLite3 libsqlite3.a)
set_property(TARGET CURL::libcurl APPEND PROPERTY INTERFACE_LINK_LIBRARIES OpenSSL::SSL OpenSSL::Crypto)

# The C library of Debian 11 in place of the machine's, which g++ would find first without -B and -L. Before glibc
# 2.34 threads and dlopen were libraries of their own; newer ones still have them, empty. The unwinder stays shared:
# g++ 12's static one needs glibc 2.35, and so does its shared one, which the linker must not mind, since each system
# has its own. No build id and no paths: the same sources give the same bytes.
set(CMAKE_SKIP_RPATH ON)
add_library(kcc_portable STATIC ${PROJECT_SOURCE_DIR}/cmake/portable.cc)
link_libraries(kcc_portable)
target_link_options(kcc_portable INTERFACE --sysroot=${portable}/libc -B${libc_folder} -L${libc_folder} -static-libstdc++
                    -Wl,--allow-shlib-undefined -Wl,--exclude-libs,ALL -Wl,--build-id=none)
target_link_libraries(kcc_portable INTERFACE -lpthread -ldl -lm)
