// tests/unit/conformance/file_defect.cpp: the defect that one file of broken_scheduler.cpp has before there is an
// instance.
extern const char* const file_defect;  // "scheduler": none
const char* const file_defect = DEFECT;
