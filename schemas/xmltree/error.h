/* What libxml2 hands to an error function. */
#ifndef XMLTREE_ERROR_H
#define XMLTREE_ERROR_H

#include <libxml/xmlerror.h>
#include <libxml/xmlversion.h>

#if LIBXML_VERSION >= 21200 /* from then on it is only to be read */
typedef const xmlError *xt_error;
#else
typedef xmlError *xt_error;
#endif

#endif
