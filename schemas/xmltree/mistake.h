/* Why a text is not well-formed. */
#ifndef XMLTREE_MISTAKE_H
#define XMLTREE_MISTAKE_H

typedef struct {
	long at;        /* the offset of what is wrong, or of what follows it */
	int behind;     /* it is that something follows the root */
	char text[400]; /* the message, cut; empty without one */
} xt_mistake;

/* Parses text, which the caller found not to be well-formed, for its first error. */
void xt_diagnose(const char *text, int len, xt_mistake *out);

/* Parses text, which is well-formed, for the first declaration of a namespace
 * that Namespaces in XML forbids. */
void xt_diagnose_namespaces(const char *text, int len, xt_mistake *out);

#endif
