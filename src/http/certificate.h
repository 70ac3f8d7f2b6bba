// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The parts of an X.509 certificate that is being made. Each says whether it worked. */
#include "base/auto.h"

#include <stdbool.h>
#include <time.h>

#define CERTIFICATE_SERIAL_SIZE 16
#define CERTIFICATE_CURVE       "prime256v1"
#define CERTIFICATE_PEM_MAX     ((size_t)4096)

struct x509_st;
struct X509_name_st;

/* value is in the words of openssl's configuration: nothing that a stranger has chosen may be in
 * it unless its letters were checked. */
bool certificate_add_extension(struct x509_st *cert, struct x509_st *issuer, int nid,
                               const char *value);
/* Makes the bytes positive and of full length. */
bool certificate_set_serial(struct x509_st *cert, uint8_t serial[CERTIFICATE_SERIAL_SIZE]);
bool certificate_add_name(struct X509_name_st *name, const char *field, const char *text);
bool certificate_set_dates(struct x509_st *cert, time_t from_s, time_t until_s);
bool certificate_write_pem(const struct x509_st *cert, char ret[CERTIFICATE_PEM_MAX]);
