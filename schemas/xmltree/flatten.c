#include "flatten.h"
#include "error.h"

#include <libxml/c14n.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The walk runs twice over the same nodes: once to count, once to fill. */
typedef struct {
	xt_doc *d;
	int fill;
	int nns, nattrs, nnodes, nelements;
	size_t ntext;
} walk;

static xt_range put(walk *w, const xmlChar *s) {
	xt_range r = {w->ntext, s ? strlen((const char *)s) : 0};
	if (w->fill && r.len)
		memcpy(w->d->text + r.at, s, r.len);
	w->ntext += r.len;
	return r;
}

/* A namespace is stored once; its number rests in _private, plus one. */
static int namespace_number(walk *w, xmlNsPtr ns) {
	if (!ns)
		return -1;
	if (!ns->_private) {
		xt_ns x = {put(w, ns->prefix), put(w, ns->href)};
		if (w->fill)
			w->d->ns[w->nns] = x;
		ns->_private = (void *)(intptr_t)++w->nns;
	}
	return (int)(intptr_t)ns->_private - 1;
}

static void forget_namespaces(xmlDocPtr doc) {
	for (xmlNsPtr ns = doc->oldNs; ns; ns = ns->next)
		ns->_private = NULL;
	xmlNodePtr root = xmlDocGetRootElement(doc), n = root;
	while (n) {
		if (n->type == XML_ELEMENT_NODE)
			for (xmlNsPtr ns = n->nsDef; ns; ns = ns->next)
				ns->_private = NULL;
		if (n->type == XML_ELEMENT_NODE && n->children) {
			n = n->children;
			continue;
		}
		while (n != root && !n->next)
			n = n->parent;
		n = n == root ? NULL : n->next;
	}
}

static int put_attribute(walk *w, xmlAttrPtr a) {
	xt_attr x = {.ns = namespace_number(w, a->ns)};
	x.name = put(w, a->name);
	x.value.at = w->ntext;
	for (xmlNodePtr c = a->children; c; c = c->next) {
		if (c->type != XML_TEXT_NODE)
			return 0;
		x.value.len += put(w, c->content).len;
	}
	if (w->fill)
		w->d->attrs[w->nattrs] = x;
	w->nattrs++;
	return 1;
}

static int put_node(walk *w, xmlNodePtr n, int parent) {
	xt_node x = {.kind = n->type, .parent = parent, .ns = -1, .attrs = w->nattrs};
	switch (n->type) {
	case XML_ELEMENT_NODE:
		x.ns = namespace_number(w, n->ns);
		x.name = put(w, n->name);
		for (xmlAttrPtr a = n->properties; a; a = a->next)
			if (!put_attribute(w, a))
				return 0;
		x.nattrs = w->nattrs - x.attrs;
		if (w->fill)
			w->d->elements[w->nelements] = n;
		n->_private = (void *)(intptr_t)++w->nelements; /* the number, plus one */
		break;
	case XML_PI_NODE:
		x.name = put(w, n->name);
		/* fall through */
	case XML_TEXT_NODE:
	case XML_COMMENT_NODE:
		x.content = put(w, n->content);
		break;
	default: /* entity references, declarations: refused before or impossible */
		return 0;
	}
	if (w->fill)
		w->d->nodes[w->nnodes] = x;
	w->nnodes++;
	return 1;
}

/* Parents are numbered on the way down; parents[] is as deep as the parser goes. */
enum { DEEPEST = 256 };

static int walk_all(walk *w, xmlNodePtr root) {
	int parents[DEEPEST + 1], depth = 0;
	parents[0] = -1;
	xmlNodePtr n = root;
	while (n) {
		int number = w->nelements;
		if (!put_node(w, n, parents[depth]))
			return 0;
		if (n->type == XML_ELEMENT_NODE && n->children) {
			if (depth == DEEPEST)
				return 0;
			parents[++depth] = number;
			n = n->children;
			continue;
		}
		while (n != root && !n->next) {
			n = n->parent;
			depth--;
		}
		n = n == root ? NULL : n->next;
	}
	return 1;
}

static void *array(size_t n, size_t size) { return calloc(n ? n : 1, size); }

xt_doc *xt_flatten(xmlDocPtr doc) {
	xmlNodePtr root = xmlDocGetRootElement(doc);
	xt_doc *d = root ? calloc(1, sizeof *d) : NULL;
	if (!d)
		return NULL;
	d->doc = doc;
	walk count = {.d = d}, fill = {.d = d, .fill = 1};
	if (!walk_all(&count, root))
		goto fail;
	forget_namespaces(doc);
	d->ns = array(count.nns, sizeof *d->ns);
	d->attrs = array(count.nattrs, sizeof *d->attrs);
	d->nodes = array(count.nnodes, sizeof *d->nodes);
	d->elements = array(count.nelements, sizeof *d->elements);
	d->text = array(count.ntext, 1);
	if (!d->ns || !d->attrs || !d->nodes || !d->elements || !d->text || !walk_all(&fill, root))
		goto fail;
	d->nns = fill.nns;
	d->nattrs = fill.nattrs;
	d->nnodes = fill.nnodes;
	d->nelements = fill.nelements;
	d->ntext = fill.ntext;
	return d;
fail:
	xt_free(d);
	return NULL;
}

void xt_free(xt_doc *d) {
	if (!d)
		return;
	free(d->ns);
	free(d->attrs);
	free(d->nodes);
	free(d->elements);
	free(d->text);
	free(d);
}

void xt_trim(void) {
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

typedef struct {
	xmlNodePtr apex, skip;
	xmlOutputBufferPtr out;
	size_t most;
} subtree;

/* libxml2 asks before it writes a node, and writes nothing of an invisible one:
 * so this is where what gets too long ends. An output buffer that fails would not
 * do, for names of namespaces are written past its checks. Namespace nodes are no xmlNode: they are judged by the element that carries them. */
static int visible(void *data, xmlNodePtr n, xmlNodePtr parent) {
	subtree *s = data;
	if (xmlOutputBufferGetSize(s->out) > s->most)
		return 0;
	for (xmlNodePtr p = n->type == XML_NAMESPACE_DECL ? parent : n; p; p = p->parent) {
		if (p == s->skip)
			return 0;
		if (p == s->apex)
			return 1;
	}
	return 0;
}

static void silent(void *data, xt_error e) { (void)data, (void)e; }

int xt_canonical(xt_doc *d, int apex, int skip, int mode, size_t most, xmlChar **out) {
	xmlOutputBufferPtr b = xmlAllocOutputBuffer(NULL);
	if (!b)
		return XT_FAILED;
	subtree s = {d->elements[apex], skip < 0 ? NULL : d->elements[skip], b, most};
	/* The error function is the thread's own and this call stays on one thread. */
	xmlStructuredErrorFunc was = xmlStructuredError;
	void *was_data = xmlStructuredErrorContext;
	xmlSetStructuredErrorFunc(NULL, silent);
	int n = XT_FAILED;
	if (xmlC14NExecute(d->doc, visible, &s, mode, NULL, 0, b) >= 0) {
		size_t size = xmlOutputBufferGetSize(b);
		if (size > most)
			n = XT_TOO_LONG;
		else if (size <= INT32_MAX && (*out = xmlStrndup(xmlOutputBufferGetContent(b), (int)size)))
			n = (int)size;
	}
	xmlOutputBufferClose(b);
	xmlResetLastError();
	xmlSetStructuredErrorFunc(was_data, was);
	return n;
}

void xt_free_octets(xmlChar *p) { xmlFree(p); }
