#include "findings.h"
#include "error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A node that was taken out, and where it belongs. */
typedef struct { xmlNodePtr node, parent, prev, next; } gap;

typedef struct {
	xt_findings *out;
	int pass;
	gap *gaps; /* as many as there is room for findings */
	int ngaps; /* those up to done have been taken out */
	int done;
} judge;

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

static int known(const xt_findings *f, const xt_finding *x) {
	for (int i = 0; i < f->n; i++)
		if (f->found[i].element == x->element && f->found[i].code == x->code && !strcmp(f->found[i].text, x->text))
			return 1;
	return 0;
}

/* What follows head in s; NULL if s is or begins otherwise. */
static const char *behind(const char *s, const char *head) {
	size_t len = strlen(head);
	return s && !strncmp(s, head, len) ? s + len : NULL;
}

/* Whether a child is missing in n. Names in the text are passed over, for they
 * may say anything. */
static int lacks_child(xt_error e, xmlNodePtr n) {
	if (e->code != XML_SCHEMAV_ELEMENT_CONTENT || !n)
		return 0;
	const char *s = behind(e->message, "Element '");
	if (n->ns && n->ns->href)
		s = behind(behind(behind(s, "{"), (const char *)n->ns->href), "}");
	return behind(behind(s, (const char *)n->name), "': Missing child element(s)") != NULL;
}

static void found(void *data, xt_error e) {
	judge *j = data;
	xt_findings *f = j->out;
	xmlNodePtr n = e->node;
	while (n && n->type != XML_ELEMENT_NODE)
		n = n->parent;
	int missing = lacks_child(e, n);
	if (missing && j->pass) /* only so because a misspelt one was taken out */
		return;
	if (f->n == f->room) {
		f->more++;
		return;
	}
	xt_finding x = {.code = e->code, .element = n ? (int)(intptr_t)n->_private - 1 : -1};
	x.text = shortened(e->message ? e->message : "");
	if (!x.text || known(f, &x)) {
		f->failed |= !x.text;
		free(x.text);
		return;
	}
	f->found[f->n++] = x;
	if (n && n->parent && n->parent->type == XML_ELEMENT_NODE && e->code == XML_SCHEMAV_ELEMENT_CONTENT && !missing)
		j->gaps[j->ngaps++].node = n;
}

static void take_out(gap *g) {
	xmlNodePtr n = g->node;
	g->parent = n->parent;
	g->prev = n->prev;
	g->next = n->next;
	xmlUnlinkNode(n);
}

static void put_back(gap *g) {
	xmlNodePtr n = g->node;
	n->parent = g->parent;
	n->prev = g->prev;
	n->next = g->next;
	*(n->prev ? &n->prev->next : &n->parent->children) = n;
	*(n->next ? &n->next->prev : &n->parent->last) = n;
}

void xt_validate(xt_doc *d, xmlSchemaPtr s, int room, int passes, xt_findings *out) {
	memset(out, 0, sizeof *out);
	judge j = {.out = out, .gaps = calloc(room, sizeof *j.gaps)};
	out->found = calloc(room, sizeof *out->found);
	out->failed = !j.gaps || !out->found;
	out->room = out->failed ? 0 : room;
	for (int again = !out->failed; again; j.pass++) {
		xmlSchemaValidCtxtPtr c = xmlSchemaNewValidCtxt(s);
		if (!c) {
			out->failed = 1;
			break;
		}
		xmlSchemaSetValidStructuredErrors(c, found, &j);
		if (xmlSchemaValidateDoc(c, d->doc) < 0)
			out->failed = 1;
		xmlSchemaFreeValidCtxt(c);
		again = j.done < j.ngaps && j.pass + 1 < passes && out->n < room && !out->failed;
		for (; again && j.done < j.ngaps; j.done++)
			take_out(&j.gaps[j.done]);
	}
	while (j.done)
		put_back(&j.gaps[--j.done]);
	free(j.gaps);
	xmlResetLastError();
}

void xt_free_findings(xt_findings *f) {
	for (int i = 0; i < f->n; i++)
		free(f->found[i].text);
	free(f->found);
}
