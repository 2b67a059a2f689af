/* What libxml2 may load: nothing, but for the embedded schemas while one is compiled. */
#ifndef XMLTREE_LOADER_H
#define XMLTREE_LOADER_H

#include <libxml/xmlschemas.h>
#include <stddef.h>

/* Prepares libxml2 and installs the loader; once per process. n schemas may
 * follow by xt_serve. */
void xt_init(int n);

/* Serves text, which must live for ever, under name while a schema is compiled;
 * before anything is parsed. */
void xt_serve(const char *name, const char *text, size_t len);

/* Compiles the served schema name; NULL when it cannot be. */
xmlSchemaPtr xt_compile(const char *name);

/* Whether the parser of a document would be served url. */
int xt_loads(const char *url);

#endif
