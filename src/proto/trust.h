// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Where programs inside find whom the network wall needs them to trust. The host names these files
 * in variables, and sudo inside keeps the variables that name them. */
#define TRUST_BUNDLE "/etc/ssl/certs/ca-certificates.crt" /* all that there is, and the wall's */
#define TRUST_OWN    "/usr/local/share/ca-certificates/cloche.crt" /* the wall's alone */
