# cmake -DOUTPUT=x.cc -DHEADER=y.h -DINPUTS=a.css;b.js -P embed.cmake
# Writes a C++ file that defines kcc::kPage_<name> (a.css -> kPage_a_css) for every input, declared
# in HEADER. Raw strings, so the C++ file stays readable in a debugger.
set(text "// Made by cmake/embed.cmake; edit the sources under web/ instead.\n#include \"${HEADER}\"\n\n")
string(APPEND text "namespace kcc {\n\n")
foreach(input IN LISTS INPUTS)
  file(READ ${input} content)
  string(FIND "${content}" ")kcc-web\"" found)
  if(NOT found EQUAL -1)
    message(FATAL_ERROR "${input} holds the end mark of a raw string, )kcc-web\"")
  endif()
  get_filename_component(name ${input} NAME)
  string(REGEX REPLACE "[^A-Za-z0-9]" "_" name ${name})
  string(APPEND text "const std::string_view kPage_${name} = R\"kcc-web(${content})kcc-web\";\n\n")
endforeach()
string(APPEND text "}  // namespace kcc\n")
file(WRITE ${OUTPUT} "${text}")
