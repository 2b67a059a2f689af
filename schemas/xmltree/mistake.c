#include "mistake.h"
#include "error.h"

#include <libxml/parser.h>
#include <string.h>

static void first(void *data, xt_error e) {
	xmlParserCtxtPtr c = data;
	xt_mistake *out = c->_private;
	/* What is wrong with namespaces only is told by others. */
	if (out->text[0] || e->level < XML_ERR_ERROR || e->domain == XML_FROM_NAMESPACE || !e->message)
		return;
	strncpy(out->text, e->message, sizeof out->text - 1);
	out->behind = e->code == XML_ERR_DOCUMENT_END;
	xmlParserInputPtr in = c->input;
	if (!in || !in->cur)
		return;
	const xmlChar *at = in->cur;
	if (e->code == XML_ERR_TAG_NAME_MISMATCH) /* where the end tag begins */
		while (at > in->base && *at != '<')
			at--;
	out->at = (long)in->consumed + (at - in->base);
}

/* libxml2 has one code for all declarations that are forbidden; the names of
 * namespaces that are no URIs have another, and do no harm. */
static void forbidden(void *data, xt_error e) {
	xmlParserCtxtPtr c = data;
	xt_mistake *out = c->_private;
	if (out->text[0] || e->code != XML_NS_ERR_XML_NAMESPACE || !e->message)
		return;
	strncpy(out->text, e->message, sizeof out->text - 1);
	if (c->input && c->input->cur)
		out->at = (long)c->input->consumed + (c->input->cur - c->input->base);
}

static void diagnose(const char *text, int len, xt_mistake *out, xmlStructuredErrorFunc told) {
	memset(out, 0, sizeof *out);
	xmlParserCtxtPtr c = xmlNewParserCtxt();
	if (!c)
		return;
	c->_private = out;
	c->sax->serror = told;
	xmlDocPtr d = xmlCtxtReadMemory(c, text, len, NULL, NULL, XML_PARSE_NONET | XML_PARSE_IGNORE_ENC | XML_PARSE_NOCDATA);
	if (d)
		xmlFreeDoc(d);
	xmlFreeParserCtxt(c);
	xmlResetLastError();
}

void xt_diagnose(const char *text, int len, xt_mistake *out) {
	diagnose(text, len, out, first);
}

void xt_diagnose_namespaces(const char *text, int len, xt_mistake *out) {
	diagnose(text, len, out, forbidden);
}
