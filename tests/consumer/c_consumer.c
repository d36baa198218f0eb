// A program in C that uses an installed Troupe: what pkg-config says of troupe-c is all it needs.
#include <stdio.h>
#include <troupe.h>

int main(void) {
  troupe_status* status = troupe_status_new();
  char* signature = troupe_op_signature("Relu", status);
  printf("Troupe %s: %s\n", troupe_version(), signature ? signature : troupe_status_message(status));
  troupe_text_delete(signature);
  troupe_status_delete(status);
  return 0;
}
