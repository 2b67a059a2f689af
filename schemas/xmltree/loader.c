#include "loader.h"
#include "error.h"

#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <libxml/xmlschemastypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct { const char *name, *text; size_t len; } file;

/* Written before anything is parsed, read-only afterwards. */
static file *files;
static int nfiles, room;

/* What this thread may load: a document is never parsed while it is set. */
static __thread int compiling;

static xmlParserInputPtr load(const char *url, const char *id, xmlParserCtxtPtr ctxt) {
	(void)id;
	for (int i = 0; compiling && url && i < nfiles; i++) {
		if (strcmp(url, files[i].name))
			continue;
		xmlParserInputBufferPtr b = xmlParserInputBufferCreateMem(files[i].text, (int)files[i].len, XML_CHAR_ENCODING_NONE);
		if (!b)
			return NULL;
		xmlParserInputPtr in = xmlNewIOInputStream(ctxt, b, XML_CHAR_ENCODING_NONE);
		if (in)
			in->filename = (const char *)xmlStrdup((const xmlChar *)url); /* what an include is relative to */
		/* Otherwise memory is exhausted. Newer versions have freed b, older ones have not; a leak is safer than a double free. */
		return in;
	}
	return NULL;
}

/* A document must not write to our standard error, as an xml:id that is there
 * twice would do whatever the parser's options say. */
static void print_nothing(void *ctx, const char *msg, ...) {
	(void)ctx, (void)msg;
}

void xt_init(int n) {
	xmlInitParser();
	xmlSchemaInitTypes(); /* otherwise done by the first user, without a lock */
	xmlSetExternalEntityLoader(load);
	xmlSetGenericErrorFunc(NULL, print_nothing);      /* this thread */
	xmlThrDefSetGenericErrorFunc(NULL, print_nothing); /* those that have not parsed yet */
	files = calloc(n ? n : 1, sizeof *files);
	room = files ? n : 0;
}

void xt_serve(const char *name, const char *text, size_t len) {
	if (nfiles < room)
		files[nfiles++] = (file){name, text, len};
}

static void silent(void *data, xt_error e) { (void)data, (void)e; }

xmlSchemaPtr xt_compile(const char *name) {
	xmlSchemaPtr s = NULL;
	compiling = 1;
	xmlSchemaParserCtxtPtr c = xmlSchemaNewParserCtxt(name);
	if (c) {
		xmlSchemaSetParserStructuredErrors(c, silent, NULL);
		s = xmlSchemaParse(c);
		xmlSchemaFreeParserCtxt(c);
	}
	xmlResetLastError();
	compiling = 0;
	return s;
}

int xt_loads(const char *url) {
	xmlParserCtxtPtr c = xmlNewParserCtxt();
	xmlParserInputPtr in = c ? xmlLoadExternalEntity(url, NULL, c) : NULL;
	int loaded = in != NULL;
	if (in)
		xmlFreeInputStream(in);
	if (c)
		xmlFreeParserCtxt(c);
	return loaded;
}
