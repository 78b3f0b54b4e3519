/*
 * render.h - the batch script of a job, from a template that ships (templates/batch/).
 *
 * A template is shell with named places, @{name}. A place alone in its line becomes any number of
 * lines; inside a line it becomes one word, quoted. There are:
 *   @{header}       #SBATCH or #BSUB lines: what the job asks for
 *   @{site}         name of the site's profile
 *   @{environment}  exports of the profile, each below its reason
 *   @{setup}        slurm.setup, as it is written
 *   @{directory} @{program} @{run_file} @{site_name}   words
 */
#ifndef SN_RENDER_H
#define SN_RENDER_H

#include "slurm/site/batch.h"

/* SN_EINPUT names the template's line, or the value that no script can hold. */
enum sn_status sn_render(struct sn_str *out, const struct sn_batch *b, const char *template,
                         const char *template_path, struct sn_err *err);
/* With the shipped template of the site's scheduler; share_dir as in sn_site_of. */
enum sn_status sn_render_shipped(struct sn_str *out, const struct sn_batch *b,
                                 const char *share_dir, struct sn_err *err);

#endif
