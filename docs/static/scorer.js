/* Ranks the pages that users need before the pages of developers. */

const DEVELOPERS = /^(bench|docs\/decisions|docs\/internals|docs\/hub)\/|^(CHANGELOG|CONTRIBUTING|SECURITY)$/;

var Scorer = {
  score: (result) => {
    const [docname, title, anchor, descr, score] = result;
    return DEVELOPERS.test(docname) ? score - 100 : score;
  },
  /* Sphinx's defaults. */
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
