#include "findings.h"

#include <libxml/xmlerror.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The text without its line end; never longer than head and tail together. */
static char *shortened(const char *s) {
	size_t len = strlen(s);
	while (len && s[len - 1] == '\n')
		len--;
	char *out = malloc(XT_HEAD + XT_TAIL + 4);
	if (!out)
		return NULL;
	if (len <= XT_HEAD + XT_TAIL) {
		memcpy(out, s, len);
		out[len] = 0;
		return out;
	}
	memcpy(out, s, XT_HEAD);
	memcpy(out + XT_HEAD, "...", 3);
	memcpy(out + XT_HEAD + 3, s + len - XT_TAIL, XT_TAIL);
	out[XT_HEAD + 3 + XT_TAIL] = 0;
	return out;
}

static void found(void *data, xmlErrorPtr e) {
	xt_findings *f = data;
	if (f->n == f->room) {
		f->more++;
		return;
	}
	xt_finding x = {.code = e->code, .element = -1, .attribute = -1};
	xmlNodePtr n = e->node;
	if (n && n->type == XML_ATTRIBUTE_NODE) {
		x.attribute = 0;
		for (xmlAttrPtr a = ((xmlAttrPtr)n)->prev; a; a = a->prev)
			x.attribute++;
	}
	while (n && n->type != XML_ELEMENT_NODE)
		n = n->parent;
	if (n)
		x.element = (int)(intptr_t)n->_private - 1;
	x.text = e->message ? shortened(e->message) : NULL;
	f->found[f->n++] = x;
}

void xt_validate(xt_doc *d, xmlSchemaPtr s, int room, xt_findings *out) {
	memset(out, 0, sizeof *out);
	out->found = calloc(room, sizeof *out->found);
	xmlSchemaValidCtxtPtr c = out->found ? xmlSchemaNewValidCtxt(s) : NULL;
	if (!c) {
		out->failed = 1;
		return;
	}
	out->room = room;
	xmlSchemaSetValidStructuredErrors(c, found, out);
	if (xmlSchemaValidateDoc(c, d->doc) < 0)
		out->failed = 1;
	xmlSchemaFreeValidCtxt(c);
	xmlResetLastError();
}

void xt_free_findings(xt_findings *f) {
	for (int i = 0; i < f->n; i++)
		free(f->found[i].text);
	free(f->found);
}
