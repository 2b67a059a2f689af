/* What a schema finds in a document. */
#ifndef XMLTREE_FINDINGS_H
#define XMLTREE_FINDINGS_H

#include "flatten.h"

#include <libxml/xmlschemas.h>

/* The text of a finding is cut in its middle: what it begins and ends with is kept. */
enum { XT_HEAD = 400, XT_TAIL = 1600 };

typedef struct {
	int code;      /* xmlParserErrors */
	int element;   /* its number; -1 when none is concerned */
	int attribute; /* which of the element's; -1 for the element itself */
	char *text;    /* of libxml2; NULL without memory */
} xt_finding;

typedef struct {
	xt_finding *found;
	int n, room;
	int more;    /* findings beyond the room */
	int failed;  /* libxml2 could not judge */
} xt_findings;

/* Judges d and keeps the first room findings. */
void xt_validate(xt_doc *d, xmlSchemaPtr s, int room, xt_findings *out);
void xt_free_findings(xt_findings *f);

#endif
