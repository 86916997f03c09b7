#include "checkmate.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include "chains.h"
#include "every_schedule.h"
namespace meshwright {
namespace {
TEST(Checkmate, Proto) {
  int eq=0,more=0,rot=0,opt=0,inf=0,infdiff=0,heur=0;
  for (int seed = 0; seed < 40; ++seed) {
    const Chain chain = random_chain(seed, 2+seed%5, Gradients::any);
    const std::int64_t most = replay(chain, keep_everything(chain)).value().peak_bytes;
    std::vector<std::int64_t> budgets{0,most/2,most*2/3,most*5/6};
    std::clock_t b=std::clock();
    auto got = Checkmate({}).solve(chain,budgets);
    double s=double(std::clock()-b)/CLOCKS_PER_SEC;
    if(!got){printf("ERR %d %s\n",seed,got.error().message.c_str());continue;}
    printf("%d n=%zu %.2fs",seed,chain.stages.size(),s);
    for(size_t i=0;i<4;++i){auto any=least_ticks_of_every_schedule(chain,budgets[i],ScheduleFamily::any);
      auto per=least_ticks_of_every_schedule(chain,budgets[i],ScheduleFamily::nested);
      auto&a=(*got)[i];
      if(a.status==SolveStatus::infeasible){++inf; if(any){++infdiff;printf(" INFDIFF");}}
      else if(a.status==SolveStatus::heuristic){++heur;printf(" HEUR %s",a.method.c_str());}
      else {++opt; long t=(long)a.ticks; if(!any||t<*any)printf(" BAD"); else if(t==*any)++eq; else {++more;printf(" more");} if(per&&t<*per)++rot; if(per&&t>*per)printf(" WORSE");}
    }
    printf("\n");
  }
  printf("opt %d eq %d more %d faster-than-nested %d inf %d infdiff %d heur %d\n",opt,eq,more,rot,inf,infdiff,heur);
}
}
}
