/* What a schema finds in a document. */
#ifndef XMLTREE_FINDINGS_H
#define XMLTREE_FINDINGS_H

#include "flatten.h"

#include <libxml/xmlschemas.h>

/* The text of a finding is cut in its middle: what it begins and ends with is kept. */
enum { XT_HEAD = 400, XT_TAIL = 1600 };

typedef struct {
	int code;    /* xmlParserErrors */
	int element; /* its number; -1 when none is concerned */
	char *text;  /* of libxml2; never NULL */
} xt_finding;

typedef struct {
	xt_finding *found;
	int n, room;
	int more;   /* findings beyond the room */
	int failed; /* libxml2 could not judge */
} xt_findings;

/* Judges d and keeps the first room findings. libxml2 does not look at what
 * follows an element that is not expected; so such elements are taken out and d
 * is judged again, in all at most passes times. d is as before in the end. */
void xt_validate(xt_doc *d, xmlSchemaPtr s, int room, int passes, xt_findings *out);
void xt_free_findings(xt_findings *f);

#endif
