// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The files with the certificates that programs inside trust, the network wall's among them. The
 * host sets environment variables to these paths, and sudo inside keeps the variables. */
#define TRUST_BUNDLE "/etc/ssl/certs/ca-certificates.crt" /* all that there is, and the wall's */
#define TRUST_OWN    "/usr/local/share/ca-certificates/cloche.crt" /* the wall's alone */
