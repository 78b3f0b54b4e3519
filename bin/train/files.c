#include "bin/train/files.h"

#include "checkpoint/store/saver.h"
#include "lib/rundir/record.h"

enum sn_status sn_train_files_open(struct sn_train_files *f, const struct sn_config *c,
                                   const struct sn_comm *comm, enum sn_train_files_of of,
                                   struct sn_err *err)
{
    if (comm->rank == 0 && of == SN_FILES_TRAINED)
        SN_TRY(sn_record_run_file(c, err));
    SN_TRY(sn_saver_open(&f->saver, c, err));
    return comm->size > 1 && of != SN_FILES_READ
               ? sn_flight_open(&f->recorder, c->run.output, comm->rank, err)
               : SN_OK;
}

void sn_train_files_close(struct sn_train_files *f)
{
    sn_flight_close(f->recorder);
    sn_saver_close(&f->saver);
    sn_train_lock_close(&f->lock);
}
