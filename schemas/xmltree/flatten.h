/* One flat copy of a libxml2 document, and canonical octets of its elements. */
#ifndef XMLTREE_FLATTEN_H
#define XMLTREE_FLATTEN_H

#include <libxml/tree.h>

/* Strings are ranges of xt_doc.text; indexes are -1 for "none". */
typedef struct { size_t at, len; } xt_range;
typedef struct { xt_range prefix, uri; } xt_ns;
typedef struct { xt_range name, value; int ns; } xt_attr;
typedef struct {
	int kind;   /* XML_ELEMENT_NODE, XML_TEXT_NODE, XML_COMMENT_NODE, XML_PI_NODE */
	int parent; /* the element's number among elements */
	int ns;
	int attrs, nattrs;
	xt_range name, content;
} xt_node;

typedef struct {
	xmlDocPtr doc;
	xt_ns *ns;          int nns;
	xt_attr *attrs;     int nattrs;
	xt_node *nodes;     int nnodes;
	xmlNodePtr *elements; int nelements;
	char *text;         size_t ntext;
} xt_doc;

/* A flat copy of doc, or NULL: no memory, or a node that cannot be.
 * doc stays the caller's and must outlive the copy; the _private of an element
 * becomes its number plus one. */
xt_doc *xt_flatten(xmlDocPtr doc);
void xt_free(xt_doc *d);

/* xt_trim gives free memory back to the system, where that is possible. */
void xt_trim(void);

/* Canonical octets of element number apex without the subtree of number skip
 * (-1: none), without comments. The octets are xmlFree'd by xt_free_octets; the
 * answer is their number, XT_FAILED, or XT_TOO_LONG where they would be more
 * than most: writing ends with the element that passes it. */
enum { XT_FAILED = -1, XT_TOO_LONG = -2 };
int xt_canonical(xt_doc *d, int apex, int skip, int mode, size_t most, xmlChar **out);
void xt_free_octets(xmlChar *p);

#endif
