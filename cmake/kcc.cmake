# kcc_module(NAME DEPS modules… PUBLIC headers… PUBLIC_TO_TESTS headers… LIBS imported targets…
#            [TEST_LIBS …] [ALONE regex] [LEAVE_OUT regex] [COLD]):
# one folder under kcc/, one static library, one test program. COLD: kcc_cold below.
# tools/check_layers.py reads DEPS, the folders that this one may include, PUBLIC, the headers of this one
# that others may include, and PUBLIC_TO_TESTS, those that only tests, bench/ and fuzz/ may.

if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  message(FATAL_ERROR "kcc is built and run on Linux (it uses /proc, signalfd and ELF version scripts); this is "
                      "${CMAKE_SYSTEM_NAME}. Use a container: docs/getting-started.md \"Other systems\".")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "kcc needs g++ 12 or newer, or clang; this is g++ ${CMAKE_CXX_COMPILER_VERSION}. Install g++-12, "
                      "set CXX=g++-12 in the environment and remove the build folder.")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
find_package(Threads REQUIRED)

# Paths are hashed relative to the checkout, so that a fresh clone finds what another one built. Which headers a source
# includes is read from what the compiler notes for ninja: preprocessing it for the cache alone is a tenth of its time.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
      ${CCACHE_PROGRAM})
endif()

# Same bits from every compiler: a fused multiply-add is written, never inferred.
add_compile_options(-ffp-contract=off)
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options(-fsigned-char)  # as on x86: a char's sign must not decide what is read
endif()
if(KCC_DEV)
  add_compile_options(-Wall -Wextra -Wconversion -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-restrict)  # false in g++ 12 for std::string (GCC bug 105651)
    if(KCC_SANITIZE)  # g++ 12 warns falsely of instrumented std::optional; the plain build still warns
      add_compile_options(-Wno-maybe-uninitialized)
    endif()
  endif()
endif()
if(KCC_SANITIZE)
  add_compile_options(-fsanitize=${KCC_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KCC_SANITIZE})
endif()

if(KCC_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage in the libraries, for fuzz/
endif()

# kcc_join_sources(OUT SOURCES ALONE): in OUT, the sources to compile in place of SOURCES. Up to KCC_JOIN of
# them are included by one, since most of a small source's time goes into the headers it includes. Two
# sources of a target must then not give one name to two private things. Compiled alone: the sources
# whose name matches ALONE (variants of one thing, with the same private names, sources that open an
# enumeration's names to their whole file, and those with compile options of their own), and those that
# Highway compiles once for each vector width.
# CMake's own unity build would do, but for the checkout's path that it writes into the joined sources:
# a fresh clone would then find nothing in the compiler's cache.
function(kcc_join_sources out sources alone)
  if(NOT KCC_JOIN)
    set(${out} ${sources} PARENT_SCOPE)
    return()
  endif()
  set(compiled)
  set(text "")
  set(held 0)
  set(files 0)
  foreach(source IN LISTS sources)
    cmake_path(GET source FILENAME name)
    file(STRINGS ${source} per_width REGEX "foreach_target.h" LIMIT_COUNT 1)
    if(per_width OR (alone AND name MATCHES "${alone}"))
      list(APPEND compiled ${source})
      continue()
    endif()
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE relative)
    string(APPEND text "#include \"${relative}\"\n")
    math(EXPR held "${held} + 1")
    if(held EQUAL KCC_JOIN)
      kcc_joined_file(${files} "${text}" compiled)
      math(EXPR files "${files} + 1")
      set(text "")
      set(held 0)
    endif()
  endforeach()
  if(held)
    kcc_joined_file(${files} "${text}" compiled)
  endif()
  set(${out} ${compiled} PARENT_SCOPE)
endfunction()

# Writes one joined source, unless it is there and the same, and appends it to the list OUT.
function(kcc_joined_file number text out)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/joined/joined_${number}.cc)
  file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
  # g++ takes what a joined source includes for a header, in which this would be a mistake.
  set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
                              $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  set(${out} ${${out}} ${file} PARENT_SCOPE)
endfunction()

# kcc_test(NAME TARGET arguments… [WITH libraries…]): a test that is not run again until what decides its outcome
# has changed: tools/unless_passed.py. WITH: targets of this build that the program loads. Tests name files
# relative to the checkout; a macro with its path would defeat ccache.
function(kcc_test name target)
  cmake_parse_arguments(ARG "" "" "WITH" ${ARGN})
  set(command ${target})
  if(NOT CMAKE_CROSSCOMPILING)  # there the target's name makes CMake put the emulator before it
    set(command ${PROJECT_SOURCE_DIR}/tools/unless_passed.py)
    foreach(library IN LISTS ARG_WITH)
      list(APPEND command --with $<TARGET_FILE:${library}>)
    endforeach()
    list(APPEND command $<TARGET_FILE:${target}>)
  endif()
  add_test(NAME ${name} COMMAND ${command} ${ARG_UNPARSED_ARGUMENTS} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

# kcc_cold(TARGET): nothing in it is worth -O3. It runs once a command, waits for a file, a network or a
# database, or writes a page; -O1 takes a third off the time that it compiles.
function(kcc_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

function(kcc_module name)
  cmake_parse_arguments(ARG "COLD" "ALONE;LEAVE_OUT" "DEPS;PUBLIC;PUBLIC_TO_TESTS;LIBS;PRIVATE_LIBS;TEST_LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(ARG_LEAVE_OUT)  # sources of which this build has another
    string(REPLACE "^" "/" left_out "${ARG_LEAVE_OUT}")
    list(FILTER sources EXCLUDE REGEX "${left_out}[^/]*$")
  endif()

  if(sources)
    kcc_join_sources(compiled "${sources}" "${ARG_ALONE}")
    add_library(kcc_${name} STATIC ${compiled})
    set(visibility PUBLIC)
  else()
    add_library(kcc_${name} INTERFACE)
    set(visibility INTERFACE)
  endif()
  target_include_directories(kcc_${name} ${visibility} ${PROJECT_SOURCE_DIR})
  list(TRANSFORM ARG_DEPS PREPEND kcc_)
  target_link_libraries(kcc_${name} ${visibility} ${ARG_DEPS} ${ARG_LIBS})
  if(sources AND ARG_COLD)
    kcc_cold(kcc_${name})
  endif()
  if(sources AND ARG_PRIVATE_LIBS)
    target_link_libraries(kcc_${name} PRIVATE ${ARG_PRIVATE_LIBS})
  endif()

  if(KCC_DEV AND tests)
    find_package(GTest REQUIRED)
    add_executable(kcc_${name}_test ${tests})
    target_link_libraries(kcc_${name}_test PRIVATE kcc_${name} GTest::gmock GTest::gtest_main
                                                   rapidcheck ${ARG_TEST_LIBS})
    # What is tested is optimised in full; the tests themselves compile a third faster without it.
    target_compile_options(kcc_${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
    # Nor are tests looked at by the checks that cost them half of their compile time under ubsan; what they
    # call is, and the address sanitizer sees what these would find in a test.
    if(KCC_SANITIZE MATCHES undefined)
      target_compile_options(kcc_${name}_test PRIVATE -fno-sanitize=null,alignment,object-size,vptr)
    endif()
    kcc_test(${name} kcc_${name}_test)
    # Properties run from one seed here, so that a run can be repeated; a program started by hand
    # takes a new seed each time and prints it.
    set_tests_properties(${name} PROPERTIES LABELS core ENVIRONMENT RC_PARAMS=seed=20261115)
  endif()
endfunction()

# kcc_embed(module HEADER sources…): the sources, named from web/, as one C++ file of the module, so
# that the program needs no data directory.
function(kcc_embed module header)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/web/ OUTPUT_VARIABLE sources)
  set(embed ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
  cmake_path(GET header STEM name)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  add_custom_command(
    OUTPUT ${made}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${made} -DHEADER=${header} "-DINPUTS=${sources}" -P ${embed}
    DEPENDS ${sources} ${embed}
    VERBATIM)
  target_sources(kcc_${module} PRIVATE ${made})
endfunction()
